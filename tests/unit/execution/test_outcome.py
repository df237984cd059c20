"""What a handler returned and printed, as one text."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pydantic
import pytest

from tenure.execution.outcome import MAX_OUTPUT, Outcome, Printed, normalise


@dataclass
class Point:
    x: int


class Customer(pydantic.BaseModel):
    name: str


class Odd:
    def __repr__(self):
        return "<odd>"


@pytest.mark.parametrize(
    ("returned", "printed", "output"),
    [
        (None, "", None),
        (None, "hello\n", "hello\n"),
        ("done", "", "done"),
        ("", "", ""),
        ("done", "hello", "done\nhello"),
        ("done", "\nhello", "done\nhello"),
        (7, "", "7"),
        (1.5, "", "1.5"),
        (True, "", "true"),
        (False, "", "false"),
        ([1, "a", None], "", '[1,"a",null]'),
        ({"a": {"b": 1}}, "", '{"a":{"b":1}}'),
        ({"a": 1}, "dropped", '{"a":1}'),
        (7, "dropped", "7"),
        (datetime(2030, 1, 1, tzinfo=UTC), "", '"2030-01-01T00:00:00Z"'),
        (Point(1), "", '{"x":1}'),
        (Customer(name="Ada"), "", '{"name":"Ada"}'),
        ([Customer(name="Ada")], "", '[{"name":"Ada"}]'),
        ({"a": Odd()}, "", '{"a":"<odd>"}'),
        (b"x", "", '"eA=="'),
        ({(1, 2): 3}, "", '{"(1, 2)":3}'),
    ],
)
def test_output_is_text_as_it_is_and_json_for_everything_else(returned, printed, output):
    assert normalise(returned, Printed(printed)) == (output, None)


@pytest.mark.parametrize(("returned", "printed"), [("a" * 100_000, ""), (None, "a" * 100_000), (["a" * 100_000], "")])
def test_long_output_is_cut_and_says_so(returned, printed):
    length = len(printed) or len(returned if isinstance(returned, str) else json.dumps(returned))

    output, full_length = normalise(returned, Printed(printed))

    assert output == f"{output[:MAX_OUTPUT]}… ({length} characters in all)"
    assert full_length == length


def test_what_was_dropped_while_it_was_printed_counts_too():
    output, length = normalise("returned", Printed("a" * MAX_OUTPUT, 10_000))

    assert (length, output.startswith("returned\naaa")) == (MAX_OUTPUT + 10_009, True)
    assert output.endswith(f"a… ({length} characters in all)")


@pytest.mark.parametrize(("returned", "printed"), [("\ud800", ""), (None, "\ud800")])
def test_output_can_always_be_stored_as_utf8(returned, printed):
    assert normalise(returned, Printed(printed)) == ("\\ud800", None)


def test_a_result_that_holds_itself_is_still_shown():
    loop = []
    loop.append(loop)

    assert normalise(loop) == ("[[...]]", None)


@pytest.mark.parametrize(("kind", "ok"), [("succeeded", True), ("failed", False), ("cancelled", False)])
def test_only_success_is_ok(kind, ok):
    assert Outcome(kind=kind, started=0, seconds=0.1).ok is ok
