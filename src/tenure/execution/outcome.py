"""Outcome: how one attempt went, as a value; the worker decides what follows from it."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from tenure.definition.failure import Failure, carriable
from tenure.guards.guard import Refusal

Kind = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "retry",
    "postponed",
    "cancelled",
    "unfit",
    "interrupted",
    "crashed",
    "suspect",
    "neighbour",
    "lost",
]
MAX_OUTPUT = 64 * 1024


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`unfit`: the payload did not fit the handler, which was not called; with a `reason`, the handler refused it.
    `interrupted`: the worker stopped it; `neighbour`: another job of its process had to be killed.
    `crashed`: its process died while it ran alone; `suspect`: while several ran; `lost`: its lease had passed on.

    `delay` is what the handler asked for, if it did; `started` is UTC microseconds.
    `refusal` is by the guard that it met while it ran, and waits for.
    `cpu` is in seconds, `memory` the peak of the process in bytes; `is_json` says that `output` is the result as JSON.
    """

    kind: Kind
    started: int
    seconds: float
    output: str | None = None
    failure: Failure | None = None
    delay: float | None = None
    reason: str | None = None
    cpu: float | None = None
    memory: int | None = None
    is_json: bool = False
    refusal: Refusal | None = None

    @property
    def ok(self) -> bool:
        return self.kind == "succeeded"


def is_json(value: Any) -> bool:
    """Whether `normalise` writes this result as JSON."""
    return value is not None and not isinstance(value, str)


def normalise(value: Any, printed: str) -> str | None:
    """What a handler returned and printed, as one text: JSON for everything but text, print-outs after text."""
    if value is None:
        return cut(printed) if printed else None
    if not isinstance(value, str):
        return cut(_json(value))
    if printed:
        value = f"{value}{printed}" if printed.startswith("\n") else f"{value}\n{printed}"
    return cut(value)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(value)  # a result that JSON cannot carry is still worth reading


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else repr(value)


def cut(text: str, longest: int = MAX_OUTPUT) -> str:
    """The text, or its beginning and how long it was."""
    return carriable(text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters in all)")
