"""Tracing: OpenTelemetry spans for enqueues and runs, linked through the signed trace context of the message.

It uses only the API of OpenTelemetry, and imports it only with the setting `tracing`. Without an SDK no span is
recorded or sent.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tenure.definition.context import MAX_TRACESTATE, Context, Trace
from tenure.definition.failure import Failure, from_exception
from tenure.definition.job import Job
from tenure.errors import Cancel, CircuitOpen, Snooze

logger = logging.getLogger(__name__)

_NOT_FAILURES = (Snooze, Cancel, CircuitOpen)  # the handler raises these to say what happens next
_SYSTEM = {"messaging.system": "tenure"}


def find_tracing(wanted: bool) -> "Tracing | None":
    """The tracing of an app if the setting wants it; a missing package is only logged, so that jobs run without it."""
    if not wanted:
        return None
    try:
        return Tracing()
    except ImportError:
        logger.warning("the setting tracing has no effect without opentelemetry-api: pip install 'tenure[otel]'")
        return None


class Tracing:
    """Makes spans with the tracer provider of the process, which may be set later."""

    def __init__(self) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._tracer = trace.get_tracer("tenure")
        self._propagator = TraceContextTextMapPropagator()

    def sending(self, job: Job | None) -> AbstractContextManager[Any]:
        """A span around the enqueue of one job or of many; messages sealed inside it carry its trace context."""
        attributes = {**_SYSTEM, "messaging.operation.type": "send"}
        if job is not None:
            attributes |= {"messaging.destination.name": job.queue, "tenure.handler": job.handler}
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"send {job.queue}" if job else "send", kind=self._api.SpanKind.PRODUCER, attributes=attributes
        )
        return span

    def current(self) -> Trace | None:
        """The trace context of the current span, None without one."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        if "traceparent" not in carrier:
            return None
        state = carrier.get("tracestate", "")
        return Trace(carrier["traceparent"], state if len(state) <= MAX_TRACESTATE else "")

    def around(self, ctx: Context, proceed: Callable[[], Any]) -> Any:
        """The middleware for handlers that are not async."""
        with self._running(ctx):
            return proceed()

    async def around_async(self, ctx: Context, proceed: Callable[[], Any]) -> Any:
        with self._running(ctx):
            return await proceed()

    @contextmanager
    def _running(self, ctx: Context) -> Iterator[None]:
        """A span for one attempt, in the trace in which the job was enqueued."""
        parent, links = None, []
        if ctx.trace is not None:
            carrier = {"traceparent": ctx.trace.traceparent, "tracestate": ctx.trace.tracestate}
            parent = self._propagator.extract(carrier)
            origin = self._api.get_current_span(parent).get_span_context()
            links = [self._api.Link(origin)] if origin.is_valid else []
        with self._tracer.start_as_current_span(
            f"process {ctx.queue}",
            context=parent,
            kind=self._api.SpanKind.CONSUMER,
            links=links,
            attributes=_attributes(ctx),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("tenure.raised", type(error).__qualname__)
                if not isinstance(error, _NOT_FAILURES):
                    failure = from_exception(error, 0, ctx.attempt)
                    span.add_event("exception", _exception(failure))
                    span.set_status(self._api.StatusCode.ERROR, f"{failure.type}: {failure.message}")
                raise


def _exception(failure: Failure) -> dict[str, str]:
    """The attributes of an OpenTelemetry exception event; secrets are masked."""
    return {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": failure.trace or "",
    }


def _attributes(ctx: Context) -> dict[str, str | int]:
    return {
        **_SYSTEM,
        "messaging.operation.type": "process",
        "messaging.destination.name": ctx.queue,
        "messaging.message.id": ctx.id,
        "tenure.handler": ctx.handler,
        "tenure.attempt": ctx.attempt,
        "tenure.fence": ctx.fence,
    }
