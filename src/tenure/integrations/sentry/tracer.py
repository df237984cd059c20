"""SentryTracer: spans of enqueues and attempts, a scope for each attempt, and events for errors that handlers raised.

It runs where handlers run, which is in child processes unless the runner is `inline`. What no handler saw, such as a
crash, is reported by the worker (`ended_jobs.py`).
"""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import sentry_sdk
from msgspec import UNSET
from sentry_sdk.scope import should_send_default_pii
from sentry_sdk.tracing import Span
from sentry_sdk.utils import event_from_exception

from tenure.app.tenure import Tenure
from tenure.backends.messages import Message
from tenure.clock import to_microseconds
from tenure.definition.context import MAX_BAGGAGE, Trace
from tenure.definition.job import Job
from tenure.execution.attempt import RunningAttempt
from tenure.execution.observers import Ended
from tenure.execution.outcome import Outcome, is_last_failure
from tenure.integrations.sentry.integration import TenureIntegration, active_integration
from tenure.integrations.sentry.retries import EarlierFailures
from tenure.redaction import Redactor
from tenure.wire.envelope import peek

_STATUS = {
    "succeeded": "ok",
    "failed": "internal_error",
    "retry": "internal_error",
    "unfit": "invalid_argument",
    "timed_out": "deadline_exceeded",
    "cancelled": "cancelled",
}
_FAILURES = ("failed", "retry", "unfit", "timed_out")


@dataclass(frozen=True)
class SentryTracer:
    """Equal to another one of the same app."""

    app: Tenure
    earlier: EarlierFailures = field(default_factory=EarlierFailures, compare=False)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self.app.settings.sensitive)

    @contextmanager
    def sending(self, job: Job | None, url: str) -> Iterator["PublishSpan"]:  # noqa: ARG002 - Sentry does not show it
        if active_integration() is None or sentry_sdk.get_current_span() is None or _is_streaming():
            yield PublishSpan(None)
            return
        name = job.handler if job else "jobs"
        # In a scope of its own: enqueues of coroutines that were started together would exchange their spans.
        with (
            sentry_sdk.new_scope(),
            sentry_sdk.start_span(op="queue.publish", name=name, origin=TenureIntegration.origin) as span,
        ):
            span.set_data("messaging.system", "tenure")
            if job is not None:
                span.set_data("messaging.destination.name", job.queue)
            yield PublishSpan(span)

    def inject(self, trace: Trace | None) -> Trace | None:
        if active_integration() is None or not (header := sentry_sdk.get_traceparent()):
            return trace
        baggage = sentry_sdk.get_baggage() or ""
        made = trace or Trace(_w3c(header))
        return msgspec.structs.replace(made, sentry=header, baggage=baggage if len(baggage) <= MAX_BAGGAGE else "")

    @contextmanager
    def observe(self, run: RunningAttempt) -> Iterator[Ended]:
        integration = active_integration()
        if integration is None:
            yield _ignore
            return
        ctx = run.context
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_transaction_name(ctx.handler, source="task")
            scope.set_tags({
                "tenure.job_id": ctx.id, "tenure.handler": ctx.handler, "tenure.queue": ctx.queue,
                "tenure.attempt": ctx.attempt,
            })  # fmt: skip
            scope.set_context("tenure", self._described(run))
            self.earlier.show(ctx.id, scope)
            with self._transaction(run) as span:
                yield lambda outcome, error: self._end(run, integration, span, outcome, error)

    def _transaction(self, run: RunningAttempt) -> AbstractContextManager[Any]:
        """The transaction of the attempt, in the trace of its enqueue."""
        ctx = run.context
        headers = {}
        if ctx.trace is not None and ctx.trace.sentry:
            headers = {"sentry-trace": ctx.trace.sentry, "baggage": ctx.trace.baggage}
        transaction = sentry_sdk.continue_trace(
            headers, op="queue.process", name=ctx.handler, source="task", origin=TenureIntegration.origin
        )
        if _is_streaming():
            return nullcontext()
        for name, value in _data(run).items():
            transaction.set_data(name, value)
        facts = {"handler": ctx.handler, "queue": ctx.queue, "attempt": ctx.attempt}
        return sentry_sdk.start_transaction(transaction, custom_sampling_context={"tenure_job": facts})

    def _described(self, run: RunningAttempt) -> dict[str, Any]:
        """The context `tenure` of the events of an attempt; arguments only if the user allows personal data."""
        ctx = run.context
        described = {
            "id": ctx.id, "handler": ctx.handler, "queue": ctx.queue, "name": ctx.name, "attempt": ctx.attempt,
            "max_retries": ctx.max_retries, "crashes": ctx.crashes, "fence": ctx.fence, "tags": list(ctx.tags),
        }  # fmt: skip
        if _may_send_arguments():
            described["arguments"] = self._redactor.mask(msgspec.json.decode(run.attempt.envelope.payload))
            described["meta"] = self._redactor.mask(ctx.meta)
        return described

    def _end(
        self,
        run: RunningAttempt,
        integration: TenureIntegration,
        span: Span | None,
        outcome: Outcome,
        error: BaseException | None,
    ) -> None:
        if span is not None:
            span.set_status(_STATUS.get(outcome.kind, "aborted"))
        if error is None or outcome.kind not in _FAILURES:
            return
        ctx = run.context
        is_final = is_last_failure(outcome, ctx.attempt - 1, ctx.max_retries)
        if is_final:
            self.earlier.forget(ctx.id)
        elif outcome.failure is not None:
            self.earlier.add(ctx.id, outcome.failure)
        if is_final or integration.reports_every():
            event, hint = event_from_exception(
                error,
                client_options=sentry_sdk.get_client().options,
                mechanism={"type": integration.identifier, "handled": False},
            )
            sentry_sdk.capture_event(event, hint=hint)


class PublishSpan:
    """The span of an enqueue, or none outside a transaction."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def sent(self, id: str, message: Message) -> None:
        if self._span is not None:
            self._span.set_data("messaging.message.id", str(id))
            self._span.set_data("messaging.message.body.size", len(peek(message.body).payload))

    def sent_many(self, count: int, queues: Collection[str]) -> None:
        if self._span is not None:
            self._span.set_data("messaging.batch.message_count", count)
            if len(queues) == 1:
                (queue,) = queues
                self._span.set_data("messaging.destination.name", queue)


def _data(run: RunningAttempt) -> dict[str, Any]:
    """What Sentry's page of queues reads; the latency is known for the first lease only, later ones include retries."""
    ctx, envelope = run.context, run.attempt.envelope
    data = {
        "messaging.system": "tenure",
        "messaging.message.id": ctx.id,
        "messaging.destination.name": ctx.queue,
        "messaging.message.retry.count": ctx.attempt - 1,
        "messaging.message.body.size": len(envelope.payload),
    }
    due = envelope.schedule or envelope.created_at
    if ctx.fence == 1 and due is not UNSET:
        data["messaging.message.receive.latency"] = max(0, run.started - to_microseconds(due)) / 1000
    return data


def _w3c(header: str) -> str:
    """The W3C Trace Context that says the same as a `sentry-trace`."""
    trace_id, span_id, *sampled = header.split("-")
    return f"00-{trace_id}-{span_id}-{'01' if sampled == ['1'] else '00'}"


def _may_send_arguments() -> bool:
    """Whether the user allows the client to send what jobs contain: newer clients have an option for queues alone."""
    collected = sentry_sdk.get_client().options.get("data_collection") or {}
    return bool(collected.get("queues", should_send_default_pii()))


def _is_streaming() -> bool:
    """Whether the client streams spans, an experiment of the SDK without transactions."""
    options = sentry_sdk.get_client().options
    return "stream" in (options.get("trace_lifecycle"), (options.get("_experiments") or {}).get("trace_lifecycle"))


def _ignore(outcome: Outcome, error: BaseException | None) -> None:
    """Sentry is off."""
