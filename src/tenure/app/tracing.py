"""Tracing: what wants to know of enqueues and attempts, and to carry a trace in the signed message.

OpenTelemetry is one tracer, for the setting `tracing`; an integration may add others with `app.trace_with`.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from tenure.backends.messages import Message
from tenure.definition.context import Trace
from tenure.definition.job import Job

if TYPE_CHECKING:  # a process that only enqueues imports neither
    from tenure.app.spans import OpenTelemetrySpans
    from tenure.execution.attempt import RunningAttempt
    from tenure.execution.observers import Ended

logger = logging.getLogger(__name__)

Relation = Literal["link", "parent"]
MISSING_PACKAGE = "the setting %s has no effect without opentelemetry-api: pip install 'tenure[otel]'"


class Sending(Protocol):
    """An enqueue that is under way."""

    def sent(self, id: str, message: Message, /) -> None:
        """One job was enqueued under this id, which is another than that of its message if it existed already."""
        ...

    def sent_many(self, count: int, queues: Collection[str], /) -> None:
        """So many jobs were enqueued, on these queues."""
        ...


class Tracer(Protocol):
    """Makes spans of enqueues and attempts; it is also an observer of attempts."""

    def sending(self, job: Job | None, url: str, /) -> AbstractContextManager[Sending]:
        """Entered around the enqueue of one job or, with None, of many; messages sealed inside it carry its trace.

        `url` is that of the backend, with its password.
        """
        ...

    def inject(self, trace: Trace | None, /) -> Trace | None:
        """What a message that is sealed now carries: the trace that the tracers before this one made, and its own."""
        ...

    def observe(self, run: "RunningAttempt", /) -> "AbstractContextManager[Ended]": ...


class Sendings:
    """One enqueue, for all tracers of an app."""

    def __init__(self, sendings: Sequence[Sending]) -> None:
        self._sendings = sendings

    def sent(self, id: str, message: Message) -> None:
        for each in self._sendings:
            each.sent(id, message)

    def sent_many(self, count: int, queues: Collection[str]) -> None:
        for each in self._sendings:
            each.sent_many(count, queues)


@contextmanager
def sending(tracers: Sequence[Tracer], url: str, job: Job | None = None) -> Iterator[Sendings]:
    """Inside the spans of all tracers for an enqueue."""
    with ExitStack() as stack:
        yield Sendings([stack.enter_context(tracer.sending(job, url)) for tracer in tracers])


class Traced(NamedTuple):
    """An enqueue that is sent together with those of other callers: its spans, and what its message carries."""

    spans: Sendings
    trace: Trace | None


_given: ContextVar[Trace | None] = ContextVar("tenure.trace", default=None)


@contextmanager
def traced(tracers: Sequence[Tracer], url: str, job: Job) -> Iterator[Traced]:
    """Inside the spans for an enqueue that another thread makes."""
    with sending(tracers, url, job) as spans:
        yield Traced(spans, trace_of(tracers))


@contextmanager
def carrying(trace: Trace | None) -> Iterator[None]:
    """Messages that are sealed inside it carry this trace, if there is one."""
    token = _given.set(trace)
    try:
        yield
    finally:
        _given.reset(token)


def trace_of(tracers: Sequence[Tracer]) -> Trace | None:
    """What a message that is sealed now carries."""
    trace = _given.get()
    if trace is not None:
        return trace
    for tracer in tracers:
        trace = tracer.inject(trace)
    return trace


def find_spans(wanted: bool | Relation) -> "OpenTelemetrySpans | None":
    """The tracer that the setting `tracing` wants; a missing package is only logged, so that jobs run without it."""
    if wanted is False:
        return None
    try:
        from tenure.app.spans import OpenTelemetrySpans
    except ImportError:
        logger.warning(MISSING_PACKAGE, "tracing")
        return None
    return OpenTelemetrySpans("link" if wanted is True else wanted)
