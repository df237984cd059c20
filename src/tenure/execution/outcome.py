"""What one attempt leaves behind: how it ended, what the handler returned and printed, what CPU and memory it used.

`Outcome` is a value. The worker decides what follows from it.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TextIO, cast

import msgspec
from msgspec import Struct, structs

from tenure.definition.callables import refuse_lazy
from tenure.definition.context import current_context
from tenure.definition.failure import Failure, storable
from tenure.definition.payload import to_json
from tenure.errors import InvalidHandler
from tenure.execution.raw_output import RawOutput
from tenure.guards.guard import Refusal

# Logs each line that a handler prints, once the command line has given it a log handler and the level INFO. Other log
# handlers may write to the standard output that is being collected, so they do not get these lines.
output_log = logging.getLogger("tenure.output")
output_log.propagate = False
output_log.setLevel(logging.WARNING)

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # Windows has no such module

    def peak_memory() -> int | None:
        """The most memory that this process has held so far, in bytes; None where the system does not report it."""
        return None

else:
    _MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024

    def peak_memory() -> int | None:
        """The most memory that this process has held so far, in bytes; None where the system does not report it."""
        return getrusage(RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


OutcomeKind = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "retry",
    "postponed",
    "cancelled",
    "unfit",
    "interrupted",
    "crashed",
    "vanished",
    "neighbour",
    "lost",
]
MAX_OUTPUT = 64 * 1024
_SHORT_ATTEMPT_SECONDS = 0.001  # a system call takes microseconds, which is much compared with a shorter attempt
_SHORT_ATTEMPTS_PER_SAMPLE = 32


class Outcome(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How one attempt ended.

    `failed` with a `reason`: the error says that no retry can help.
    `unfit`: the payload did not fit the handler, which was not called; with a `reason`, the job is not permitted.
    `interrupted`: the worker stopped it. `neighbour`: its process was killed because of another job in it.
    `crashed`: its process died while it ran alone. `vanished`: its process died while several jobs ran.
    `lost`: another worker has its lease.

    `delay` is the wait that the handler asked for, or that a retry policy of the user wants.
    `started` is UTC microseconds.
    `refusal` comes from the guard that the handler met while it ran; the job waits for that guard.
    `cpu` is in seconds. `memory` is the peak of the process in bytes. With `is_json`, `output` is the result as JSON.
    `output_length` is the full length of an output that was cut. `result` is the returned value as JSON, if a job that
    follows takes it; None if it is None, or cannot be passed on.
    """

    kind: OutcomeKind
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
    output_length: int | None = None
    result: str | None = None

    @property
    def ok(self) -> bool:
        return self.kind == "succeeded"


def is_last_failure(outcome: Outcome, earlier: int, max_retries: int) -> bool:
    """Whether a failure of the handler ends the job, after so many `earlier` attempts that failed."""
    if outcome.kind not in ("failed", "timed_out", "retry", "unfit"):
        return False
    says_so = outcome.kind == "failed" and outcome.reason is not None  # the error says that no retry can help
    return outcome.kind == "unfit" or says_so or earlier >= max_retries


def outcome_now(kind: OutcomeKind, started: int, begun: float, **facts: Any) -> Outcome:
    """The outcome of an attempt that ends now; `begun` is its start by `time.perf_counter`."""
    return Outcome(kind=kind, started=started, seconds=time.perf_counter() - begun, **facts)


def is_json(value: Any) -> bool:
    """Whether `normalise` writes this result as JSON."""
    return value is not None and not isinstance(value, str)


class Printed(NamedTuple):
    """What a handler printed; of a long text the beginning, and how many characters were dropped."""

    text: str = ""
    dropped: int = 0


NOTHING_PRINTED = Printed()


def success(value: Any, printed: Printed, started: int, seconds: float, *, pass_on: bool) -> Outcome:
    """The outcome of a handler that returned this value; with `pass_on`, a job that follows takes the value."""
    output, length = normalise(value, printed)
    return Outcome(
        kind="succeeded",
        started=started,
        seconds=seconds,
        output=output,
        is_json=is_json(value),
        output_length=length,
        result=_result_to_pass_on(value) if pass_on else None,
    )


def _result_to_pass_on(value: Any) -> str | None:
    """A result as JSON for the jobs that follow; None if JSON cannot carry it, or if it is too long."""
    try:
        text = to_json(value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return text if len(text) <= MAX_OUTPUT else None


def normalise(value: Any, printed: Printed = NOTHING_PRINTED) -> tuple[str | None, int | None]:
    """One text for what a handler returned and printed; if it was cut, also its full length.

    A result that is text is kept as text, and the printed text follows it. Any other result becomes JSON.
    It raises InvalidHandler if the result, or a value in it, is a generator or an awaitable: its code has not run.
    """
    text, length = printed.text, len(printed.text) + printed.dropped
    if value is None:
        if not text:
            return None, None
    elif not isinstance(value, str):
        text = _to_json(value)
        length = len(text)
    else:
        end = "" if text.startswith("\n") or not text else "\n"
        text, length = f"{value}{end}{text}", len(value) + len(end) + length
    return truncate(text, length=length), None if length <= MAX_OUTPUT else length


def _to_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=_to_json_type).decode()
    except InvalidHandler:
        raise
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(value)  # JSON cannot hold this result, but its text is still worth reading


def _to_json_type(value: Any) -> Any:
    refuse_lazy(value, "the handler")
    if isinstance(value, str):
        return str(value)  # a handle of a job
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else repr(value)


def truncate(text: str, longest: int = MAX_OUTPUT, length: int | None = None) -> str:
    """The text; of a longer one its beginning and its full length. `length` is the full length of a text cut before."""
    length = len(text) if length is None else length
    return storable(text if length <= longest else f"{text[:longest]}… ({length} characters in all)")


class Capture:
    """Replaces `sys.stdout` and collects what a running handler prints.

    Text that is printed outside a job, or by a thread that a job started, goes to the real stream.
    The lanes of a process share the first one that is installed, because they end in any order.
    """

    def __init__(self, raw: RawOutput | None = None) -> None:
        """With `raw`, it also collects what a job writes to its standard output in other ways, in the same order."""
        self._stream: TextIO = sys.stdout
        self.raw = raw
        self._users = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        with _install_lock:
            shared = sys.stdout if isinstance(sys.stdout, Capture) else self._replace_stdout()
            shared._users += 1
        try:
            yield
        finally:
            with _install_lock:
                shared._users -= 1
                if not shared._users and sys.stdout is cast("TextIO", shared):  # other code may have replaced it
                    sys.stdout = shared._stream

    def _replace_stdout(self) -> "Capture":
        self._stream = sys.stdout
        sys.stdout = cast("TextIO", self)
        return self

    def begin(self) -> None:
        """Collect what this thread or task prints, until `take`."""
        self.text().is_open = True

    def text(self) -> "PrintedText":
        """What this thread or task prints while it is open."""
        printed = _printed.get()
        if printed is None:
            printed = PrintedText()
            _printed.set(printed)
        return printed

    def take(self) -> Printed:
        """Everything that was printed since `begin`."""
        printed = _printed.get()
        if printed is None:
            return NOTHING_PRINTED
        printed.is_open = False
        if self.raw is not None:
            printed.add(*self.raw.end())
        printed.end_line()
        if not printed.parts:
            return NOTHING_PRINTED
        text = "".join(printed.parts)
        dropped = printed.size - len(text)
        printed.parts, printed.size = [], 0
        return Printed(text, dropped)

    def write(self, text: str) -> int:
        printed = _printed.get()
        if printed is None or not printed.is_open:
            return self._stream.write(text)
        if not isinstance(text, str):  # click writes bytes to find out whether a stream takes text: refuse them
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.raw is not None:
            printed.add(*self.raw.read())
        printed.add(text)
        return len(text)

    @property
    def closed(self) -> bool:
        """Asked after each job in a child: `__getattr__` would take four times as long."""
        return self._stream.closed

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """All other attributes (encoding, isatty, flush, …) are those of the real stream."""
        return getattr(self._stream, name)


class PrintedText:
    """What one thread or task has printed; reused from job to job, because most jobs print nothing."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.is_open = False
        self._line = ""

    def add(self, text: str, dropped: int = 0) -> None:
        if text and self.size <= MAX_OUTPUT:
            self.parts.append(text)
        self.size += len(text) + dropped
        if text and output_log.isEnabledFor(logging.INFO):
            *lines, self._line = (self._line + text).split("\n")
            self._log(lines)

    def end_line(self) -> None:
        """Log the last line if it has no end."""
        if self._line:
            line, self._line = self._line, ""
            self._log([line])

    def _log(self, lines: list[str]) -> None:
        context = current_context()
        was_open, self.is_open = self.is_open, False  # what a log handler prints is not printed by the job
        for line in lines:
            output_log.info("%s", line, extra={"job": context.id, "handler": context.handler})
        self.is_open = was_open


_install_lock = threading.Lock()
_printed: ContextVar[PrintedText | None] = ContextVar("tenure.printed", default=None)


class UsageMeter:
    """Measures CPU and memory of the attempts of one thread.

    It measures every attempt of 1 ms or more, and one in 32 when short attempts follow each other.
    """

    def __init__(self) -> None:
        self._short_attempts = 0
        self.is_due = True

    def stop(self, outcome: Outcome, cpu: float | None) -> Outcome:
        """Write into an outcome what the attempt used; `cpu` is the time of the thread at its start, if it was due."""
        if outcome.seconds >= _SHORT_ATTEMPT_SECONDS:
            self.is_due = True
        elif cpu is None:
            self._short_attempts += 1
            self.is_due = self._short_attempts >= _SHORT_ATTEMPTS_PER_SAMPLE
            return outcome
        else:
            self._short_attempts, self.is_due = 0, False
        if cpu is not None:
            structs.force_setattr(outcome, "cpu", time.thread_time() - cpu)
        structs.force_setattr(outcome, "memory", peak_memory())
        return outcome
