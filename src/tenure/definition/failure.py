"""Failure: the record of one failed attempt, cut to a size that backends can store."""

import os
import traceback
from pathlib import Path
from traceback import TracebackException

from msgspec import Struct

from tenure.events import Run
from tenure.redaction import default_redactor

KEPT_FAILURES = 25  # how many failed attempts of a job a backend keeps; older records are deleted
MAX_MESSAGE = 2_000
MAX_TRACE = 8_000
VANISHED = "Vanished"
CRASHED = "Crashed"
_VANISHED_MESSAGE = "the worker that held the job vanished, and the lease expired"
_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_ASYNCIO = f"{Path(traceback.__file__).with_name('asyncio')}{os.sep}"  # an import of asyncio would take 50 ms
_BUILTIN_HANDLERS = f"{_PACKAGE}builtin{os.sep}"


class Failure(Struct, frozen=True):
    """What failed, where, and when (UTC microseconds); `worker` is the name of the worker that recorded it.

    `module` is where the class of the error is defined; None if there was no exception, or an older release wrote it.
    """

    type: str
    message: str
    at: int
    attempt: int
    place: str | None = None
    trace: str | None = None
    worker: str | None = None
    run: Run | None = None
    module: str | None = None


def from_exception(error: BaseException, at: int, attempt: int) -> Failure:
    """The record of an exception that a handler raised; text that looks like a secret is masked."""
    described = TracebackException.from_exception(error, compact=True)
    place = f"{described.stack[-1].filename}:{described.stack[-1].lineno}" if described.stack else None
    _cut_callers(described)
    trace = "".join(described.format())
    mask = default_redactor().text
    return Failure(
        type=type(error).__qualname__,
        message=storable(mask(_text(error)[:MAX_MESSAGE])),
        at=at,
        attempt=attempt,
        place=place and storable(place),
        trace=storable(mask(trace if len(trace) <= MAX_TRACE else f"… {trace[-MAX_TRACE:]}")),
        module=_module(error),
    )


def from_rejection(error: Exception, at: int, attempt: int) -> Failure:
    """The record of a message that was refused; without a trace, which shows only our own code and takes a millisecond.

    Anyone who can write into a queue can make a worker do this.
    """
    message = storable(default_redactor().text(str(error)[:MAX_MESSAGE]))
    return Failure(type=type(error).__qualname__, message=message, at=at, attempt=attempt, module=_module(error))


def from_expiry(at: int, attempt: int, *, crashed: bool) -> Failure:
    """The record of a run whose worker vanished; `crashed` if nothing but the job can have been the cause."""
    return Failure(type=CRASHED if crashed else VANISHED, message=_VANISHED_MESSAGE, at=at, attempt=attempt)


def _cut_callers(described: TracebackException) -> None:
    """Let each traceback begin with the user's code: cut the frames of the code that calls handlers before it.

    A traceback that is all ours stays whole. The built-in handlers count as the user's code.
    """
    waiting = [described]
    while waiting:
        each = waiting.pop()
        users = (number for number, frame in enumerate(each.stack) if not _is_caller(frame.filename))
        del each.stack[: next(users, 0)]
        waiting += [linked for linked in (each.__cause__, each.__context__) if linked is not None]
        waiting += each.exceptions or ()


def _is_caller(file: str) -> bool:
    return file.startswith((_PACKAGE, _ASYNCIO)) and not file.startswith(_BUILTIN_HANDLERS)


def storable(text: str) -> str:
    """The text with characters that databases cannot store written as escapes: lone surrogates and NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _module(error: BaseException) -> str | None:
    """Where the class is defined; a program may set the name of the module to anything, or delete it."""
    module = getattr(type(error), "__module__", None)
    return storable(module) if isinstance(module, str) else None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as unprintable:  # an exception with a broken __str__ must still be recorded
        return f"(unprintable: {type(unprintable).__qualname__})"
