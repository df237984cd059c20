"""EndedJobs: a listener in the worker that reports the failures that no handler saw.

A child process that crashed or was killed cannot report anything, and a message that was refused never reached one.
"""

from datetime import UTC, datetime
from typing import Any

import sentry_sdk

from tenure.clock import MICROSECOND
from tenure.events import Event, Settled, Settlement, Status
from tenure.integrations.sentry.integration import TenureIntegration, active_integration

_DEAD = (Status.DEAD_LETTERED, Status.REJECTED)


class EndedJobs:
    """Makes an event of each job that the worker ended, and with `report="every"` of each attempt that it ended."""

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Settled):
            return
        found = [each for each in event.settlements if each.status is not Status.ACKED and _is_unseen(each)]
        if found and (integration := active_integration()):
            for each in found:
                if each.status in _DEAD or integration.reports_every():
                    with sentry_sdk.isolation_scope() as scope:
                        scope.clear_breadcrumbs()  # those of the worker are not about this job
                        sentry_sdk.capture_event(_event(each))


def _is_unseen(settlement: Settlement) -> bool:
    """Whether a failure was not raised in the process of the handler, where SentryTracer would have seen it."""
    if settlement.status not in _DEAD and not settlement.failed:
        return False
    return settlement.run is None or settlement.place is None


def _event(settlement: Settlement) -> Any:
    kind, _, message = (settlement.error or "").partition(": ")
    reason = settlement.reason or settlement.status.value
    handler = settlement.run.handler if settlement.run else None
    tags = {
        "tenure.job_id": settlement.id, "tenure.queue": settlement.queue, "tenure.attempt": settlement.attempt,
        "tenure.reason": reason,
    }  # fmt: skip
    context = {
        "id": settlement.id, "queue": settlement.queue, "attempt": settlement.attempt, "reason": reason,
        "status": settlement.status.value,
    }  # fmt: skip
    if settlement.run is not None:
        tags["tenure.handler"] = context["handler"] = settlement.run.handler
        context["started"] = datetime.fromtimestamp(settlement.run.started / MICROSECOND, UTC).isoformat()
        context["seconds"] = settlement.run.seconds
    return {
        "level": "fatal" if settlement.status in _DEAD else "error",
        "transaction": handler or settlement.queue,
        "transaction_info": {"source": "task"},
        "exception": {
            "values": [{
                "type": kind or reason,
                "value": message or f"the job ended as {settlement.status.value}",
                "mechanism": {"type": TenureIntegration.identifier, "handled": False},
            }]
        },
        # The message may say how much memory a process used: without this each crash would be an issue of its own.
        "fingerprint": ["tenure", handler or settlement.queue, reason],
        "tags": tags,
        "contexts": {"tenure": context},
    }  # fmt: skip
