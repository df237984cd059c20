"""Addresses and forms become queries and commands, and back."""

from typing import ClassVar, Literal

import pytest
from msgspec import Struct

from tenure.errors import InvalidFilter
from tenure.web.fields import from_fields, to_fields


class Cancel(Struct, frozen=True, kw_only=True):
    action: ClassVar[str] = "cancel"
    ids: tuple[str, ...] = ()
    queue: str | None = None
    first: int = 0
    is_dry: bool = False
    window: Literal["1h", "24h"] = "1h"


class Pause(Struct, frozen=True, kw_only=True):
    queue: str


def test_fields_become_a_value_and_the_value_the_same_fields():
    pairs = [("ids", "a"), ("ids", "b"), ("queue", "emails"), ("first", "3"), ("is_dry", "true"), ("window", "1h")]
    value = from_fields(Cancel, pairs, where="the action cancel")
    assert value == Cancel(ids=("a", "b"), queue="emails", first=3, is_dry=True)
    assert to_fields(value) == pairs


def test_empty_fields_are_left_out():
    assert from_fields(Cancel, [("queue", ""), ("ids", "")], where="it") == Cancel()


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([("queues", "a")], "the action has no parameter 'queues'; did you mean 'queue'"),
        ([("zzz", "a")], "it has ids, queue, first, is_dry, window"),
        ([("first", "many")], "'first' of the action must be a whole number, not 'many'"),
        ([("window", "2h")], "'window' of the action must be one of 1h, 24h, not '2h'"),
        ([("queue", "a"), ("queue", "b")], "'queue' of the action was given twice"),
    ],
)
def test_unknown_and_wrong_fields_are_refused(pairs, text):
    with pytest.raises(InvalidFilter, match=text):
        from_fields(Cancel, pairs, where="the action")


def test_a_missing_field_is_named():
    with pytest.raises(InvalidFilter, match="the action needs the parameter 'queue'"):
        from_fields(Pause, [], where="the action")
