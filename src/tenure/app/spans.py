"""Spans of OpenTelemetry for enqueues and attempts, by version 1.44 of its conventions for messaging.

It uses only the API of OpenTelemetry. Without an SDK no span is recorded or sent. Import it only if it is wanted.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from opentelemetry import trace as api
from opentelemetry.context import Context as OpenTelemetryContext
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tenure.app.tracing import Relation
from tenure.backends.messages import Message
from tenure.backends.url import server_of
from tenure.definition.context import MAX_TRACESTATE, Trace
from tenure.definition.failure import Failure
from tenure.definition.job import Job
from tenure.execution.attempt import RunningAttempt
from tenure.execution.observers import Ended
from tenure.execution.outcome import Outcome
from tenure.wire.envelope import peek

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = {"messaging.system": "tenure"}
_SEND = {**SYSTEM, "messaging.operation.name": "send", "messaging.operation.type": "send"}
_PROCESS = {**SYSTEM, "messaging.operation.name": "process", "messaging.operation.type": "process"}
DESTINATION = "messaging.destination.name"
_MAX_ID = 255  # characters of an attribute value that comes from a message


class OpenTelemetrySpans:
    """Makes spans with the tracer provider of the process, which may be set later.

    The span of an attempt begins a trace of its own and links to the enqueue; with `parent` it is a child of the
    enqueue.
    """

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._tracer = api.get_tracer("tenure", schema_url=SCHEMA_URL)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def sending(self, job: Job | None, url: str) -> Iterator["SendSpan"]:
        attributes: dict[str, str | int] = {**_SEND, **server_attributes(url)}
        if job is not None:
            attributes |= {DESTINATION: job.queue, "tenure.handler": job.handler}
        name = f"send {job.queue}" if job else "send"
        with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes) as span:
            try:
                yield SendSpan(span)
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def inject(self, trace: Trace | None) -> Trace | None:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        if "traceparent" not in carrier:
            return trace
        state = carrier.get("tracestate", "")
        return Trace(carrier["traceparent"], state if len(state) <= MAX_TRACESTATE else "")

    @contextmanager
    def observe(self, run: RunningAttempt) -> Iterator[Ended]:
        ctx = run.context
        parent, links = self._origin(ctx.trace)
        with self._tracer.start_as_current_span(
            f"process {ctx.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=links,
            attributes=_attributes(run),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield lambda outcome, error: _describe_end(span, outcome, error)

    def _origin(self, trace: Trace | None) -> tuple[OpenTelemetryContext | None, list[Link]]:
        """The parent of the span of an attempt, None for the current span; and its links.

        An attempt may run inside another span, as with `sync://`: a span that is not its parent is linked.
        """
        if trace is None:
            return None, []
        carrier = {"traceparent": trace.traceparent, "tracestate": trace.tracestate}
        origin = self._propagator.extract(carrier)
        enqueued = api.get_current_span(origin).get_span_context()
        if not enqueued.is_valid:
            return None, []
        if self._relation == "link":
            return None, [Link(enqueued)]
        around = api.get_current_span().get_span_context()
        is_inside = around.is_valid and around.span_id != enqueued.span_id
        return origin, [Link(around)] if is_inside else []


@lru_cache(100)
def server_attributes(url: str) -> Mapping[str, str | int]:
    """The server of a backend, if its URL names one."""
    server = server_of(url)
    if server is None:
        return {}
    address, port = server
    return {"server.address": address} if port is None else {"server.address": address, "server.port": port}


class SendSpan:
    """The span of an enqueue."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def sent(self, id: str, message: Message) -> None:
        self._span.set_attribute("messaging.message.id", id)
        if self._span.is_recording():
            self._span.set_attribute("messaging.message.body.size", len(peek(message.body).payload))
            self._span.set_attribute("messaging.message.envelope.size", len(message.body))

    def sent_many(self, count: int, queues: Collection[str]) -> None:
        self._span.set_attribute("messaging.batch.message_count", count)
        if len(queues) == 1:
            (queue,) = queues
            self._span.set_attribute(DESTINATION, queue)
            self._span.update_name(f"send {queue}")


def _attributes(run: RunningAttempt) -> dict[str, str | int]:
    ctx = run.context
    return {
        **_PROCESS,
        DESTINATION: ctx.queue,
        "messaging.message.id": ctx.id[:_MAX_ID],
        "messaging.message.body.size": len(run.attempt.envelope.payload),
        "tenure.handler": ctx.handler,
        "tenure.attempt": ctx.attempt,
        "tenure.fence": ctx.fence,
    }


def _describe_end(span: Span, outcome: Outcome, error: BaseException | None) -> None:
    """What the attempt raised; only a failure makes the span an error, and not a job that is put off or cancelled."""
    if error is not None:
        span.set_attribute("tenure.raised", type(error).__qualname__)
    failure = outcome.failure
    if failure is None:
        return
    span.set_attribute("error.type", failure.type)
    span.add_event("exception", _exception(failure))
    span.set_status(StatusCode.ERROR, f"{failure.type}: {failure.message}")


def _exception(failure: Failure) -> dict[str, str]:
    """The attributes of an exception event; secrets are masked."""
    return {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": failure.trace or "",
    }
