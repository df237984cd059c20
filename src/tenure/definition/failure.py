"""Failure: the record kept of one failed attempt."""

import traceback

from msgspec import Struct

from tenure.events import Run
from tenure.redaction import usual

MAX_MESSAGE = 2_000
MAX_TRACE = 8_000


class Failure(Struct, frozen=True):
    """What went wrong, where, and when (UTC microseconds); `worker` is the name of the one that recorded it."""

    type: str
    message: str
    at: int
    attempt: int
    place: str | None = None
    trace: str | None = None
    worker: str | None = None
    run: Run | None = None


def from_exception(error: BaseException, at: int, attempt: int) -> Failure:
    """The record of an exception raised by a handler, cut to a size that can be kept, without what looks secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    trace = "".join(traceback.format_exception(error))
    return Failure(
        type=type(error).__qualname__,
        message=carriable(usual().text(_text(error)[:MAX_MESSAGE])),
        at=at,
        attempt=attempt,
        place=place and carriable(place),
        trace=carriable(usual().text(trace if len(trace) <= MAX_TRACE else f"… {trace[-MAX_TRACE:]}")),
    )


def carriable(text: str) -> str:
    """The text with what cannot be stored written out: lone surrogates, and NULs, at which databases cut."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as unprintable:  # a broken __str__ must not cost the record
        return f"(unprintable: {type(unprintable).__qualname__})"
