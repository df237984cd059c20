"""Failure: the record of one failed attempt, cut to a size that backends can store."""

import traceback

from msgspec import Struct

from tenure.events import Run
from tenure.redaction import default_redactor

KEPT_FAILURES = 25  # how many failed attempts of a job a backend keeps; older records are deleted
MAX_MESSAGE = 2_000
MAX_TRACE = 8_000
VANISHED = "Vanished"
CRASHED = "Crashed"
_VANISHED_MESSAGE = "the worker that held the job vanished, and the lease expired"


class Failure(Struct, frozen=True):
    """What failed, where, and when (UTC microseconds); `worker` is the name of the worker that recorded it."""

    type: str
    message: str
    at: int
    attempt: int
    place: str | None = None
    trace: str | None = None
    worker: str | None = None
    run: Run | None = None


def from_exception(error: BaseException, at: int, attempt: int) -> Failure:
    """The record of an exception that a handler raised; text that looks like a secret is masked."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    trace = "".join(traceback.format_exception(error))
    mask = default_redactor().text
    return Failure(
        type=type(error).__qualname__,
        message=storable(mask(_text(error)[:MAX_MESSAGE])),
        at=at,
        attempt=attempt,
        place=place and storable(place),
        trace=storable(mask(trace if len(trace) <= MAX_TRACE else f"… {trace[-MAX_TRACE:]}")),
    )


def from_rejection(error: Exception, at: int, attempt: int) -> Failure:
    """The record of a message that was refused; without a trace, which shows only our own code and takes a millisecond.

    Anyone who can write into a queue can make a worker do this.
    """
    message = storable(default_redactor().text(str(error)[:MAX_MESSAGE]))
    return Failure(type=type(error).__qualname__, message=message, at=at, attempt=attempt)


def from_expiry(at: int, attempt: int, *, crashed: bool) -> Failure:
    """The record of a run whose worker vanished; `crashed` if nothing but the job can have been the cause."""
    return Failure(type=CRASHED if crashed else VANISHED, message=_VANISHED_MESSAGE, at=at, attempt=attempt)


def storable(text: str) -> str:
    """The text with characters that databases cannot store written as escapes: lone surrogates and NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as unprintable:  # an exception with a broken __str__ must still be recorded
        return f"(unprintable: {type(unprintable).__qualname__})"
