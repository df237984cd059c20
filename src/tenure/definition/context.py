"""Context: what a handler knows about the job that it runs, and how it reports progress and calls breakers."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from math import inf
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct, field

from tenure.errors import Cancelled

MAX_TRACESTATE = 512  # characters: the minimum that W3C asks for; a longer tracestate is left out
MAX_BAGGAGE = 1024  # characters: that of Sentry has about 300; a longer one is left out


class Progress(Struct, frozen=True, gc=False):
    """How much an attempt has done, and the total if it is known; `str` gives `40 of 100 (40 %)`."""

    done: float
    total: float | None = None

    def __str__(self) -> str:
        if self.total is None:
            return _number(self.done)
        percent = f" ({100 * self.done / self.total:.0f} %)" if self.total else ""
        return f"{_number(self.done)} of {_number(self.total)}{percent}"


class Trace(Struct, frozen=True, omit_defaults=True):
    """Where a job was enqueued, as W3C Trace Context; it travels in the message and the signature covers it.

    `sentry` and `baggage` are the headers `sentry-trace` and `baggage` of Sentry; the baggage has only Sentry's items.
    """

    traceparent: Annotated[str, Meta(max_length=64)]
    tracestate: Annotated[str, Meta(max_length=MAX_TRACESTATE)] = ""
    sentry: Annotated[str, Meta(max_length=64)] = ""
    baggage: Annotated[str, Meta(max_length=MAX_BAGGAGE)] = ""


class Link(Protocol):
    """Connects a running attempt with the worker that watches it; neither side ever waits for the other.

    Each attempt has its own. `cancelled` becomes true when a user cancels the job.
    """

    @property
    def cancelled(self) -> bool: ...

    def report(self, done: float, total: float | None) -> None:
        """Make the progress of the attempt visible to the worker."""
        ...


class LocalLink(Struct, eq=False):
    """A link to a watcher in the same process."""

    cancelled: bool = False
    progress: Progress | None = None

    def report(self, done: float, total: float | None) -> None:
        self.progress = Progress(done, total)


class BreakerScope(AbstractContextManager[None, None], AbstractAsyncContextManager[None, None], Protocol):
    """A `with` or `async with` block whose calls go through a breaker; entering raises CircuitOpen while it is open."""


Breakers = Callable[[str, "Context"], BreakerScope]
"""Finds a circuit breaker of the app by its name, for the job of this context."""


def always_closed(name: str, context: "Context") -> BreakerScope:  # noqa: ARG001 - the signature of Breakers
    """The breakers of a context that was made without an app, for example in the test of a handler."""
    return nullcontext()


class Context(Struct, frozen=True, kw_only=True):
    """`attempt` is 1 for the first run; `fence` grows with every lease of the job, for conditional writes."""

    id: str
    handler: str
    payload: Any
    queue: str
    name: str | None = None
    attempt: int = 1
    crashes: int = 0
    fence: int = 1
    max_retries: int = 0
    meta: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    deadline: float | None = None
    trace: Trace | None = None
    link: Link = field(default_factory=LocalLink)
    breakers: Breakers = always_closed

    @property
    def time_left(self) -> float | None:
        """Seconds until the attempt is stopped, or None if it has no time limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether a user has cancelled this job; the worker then also interrupts the handler."""
        return self.link.cancelled

    def raise_if_cancelled(self) -> None:
        """Stop the handler here if a user has cancelled this job."""
        if self.link.cancelled:
            raise Cancelled

    def progress(self, done: float, total: float | None = None) -> None:
        """Report how far this attempt is; cheap enough for a tight loop.

        Progress above the total counts as complete. Negative numbers, infinity and NaN raise a ValueError.
        """
        if not 0 <= done < inf:
            raise ValueError(f"progress counts from 0 up; done is {done!r}")
        if total is not None:
            if not 0 <= total < inf:
                raise ValueError(f"progress counts from 0 up; total is {total!r}")
            done = min(done, total)
        self.link.report(done, total)

    def breaker(self, name: str) -> BreakerScope:
        """Protect calls of a service that may be down: `with ctx.breaker("stripe"):`, or `async with`.

        Failures of these calls open the breaker of this name. While it is open, entering raises CircuitOpen. If the
        handler does not catch it, the job is parked until the breaker allows a try; this costs no attempt.
        """
        return self.breakers(name, self)


_current: ContextVar[Context] = ContextVar("tenure.context")
enter = _current.set
leave = _current.reset


def current_context() -> Context:
    """The context of the job that is running here; raises LookupError outside a job."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no job is running here: current_context() works inside a handler only") from None


def running_context() -> Context | None:
    """The context of the job that is running here, if there is one."""
    return _current.get(None)


@contextmanager
def entered(context: Context) -> Iterator[None]:
    """Inside it, `current_context()` returns this context."""
    token = enter(context)
    try:
        yield
    finally:
        leave(token)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
