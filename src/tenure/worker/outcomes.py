"""Outcomes: one line of the log for each verdict, with its ids in `extra`; deaths as CRITICAL, the rest as INFO."""

import logging
from collections.abc import Sequence
from typing import Any

from tenure.backends.contract import Abandon, Ack, Nack, Park, Verdict
from tenure.events import Settlement, Status
from tenure.redaction import one_line
from tenure.worker.verdict import settlement

logger = logging.getLogger(__name__)

_WORDS = {
    Status.ACKED: "is done",
    Status.REQUEUED: "will be retried",
    Status.CANCELLED: "is cancelled",
    Status.EXPIRED: "has expired",
    Status.SKIPPED_IDEMPOTENT: "is skipped",
}


def log_outcomes(verdicts: Sequence[Verdict]) -> None:
    """Jobs that only go back, at no cost, are told at DEBUG."""
    told = logger.isEnabledFor(logging.INFO)
    for verdict in verdicts:
        if isinstance(verdict, Abandon):
            _log_death(verdict)
        elif told:
            _log(verdict)


def facts(verdict: Verdict, told: Settlement) -> dict[str, Any]:
    """What a line of a structured log says about a verdict; what is not known is left out."""
    run = told.run
    known: dict[str, Any] = {
        "job": told.id,
        "queue": told.queue,
        "status": told.status.value,
        "attempt": told.attempt,
        "reason": told.reason,
        "error": error_of(verdict),
    }
    if run is not None:
        known |= {
            "handler": run.handler,
            "seconds": round(run.seconds, 6),
            "wait": run.wait,
            "cpu": run.cpu,
            "memory": run.memory,
            "worker": run.worker,
        }
    return {name: value for name, value in known.items() if value is not None}


def error_of(verdict: Verdict) -> str | None:
    """Type and message of what went wrong."""
    failure = None if isinstance(verdict, Ack | Park) else verdict.failure
    return f"{failure.type}: {failure.message}" if failure else None


def _log_death(verdict: Abandon) -> None:
    told = settlement(verdict)
    logger.critical(
        "job %s on queue %r is dead (%s): %s",
        one_line(told.id), told.queue, told.reason, one_line(error_of(verdict) or "no error"),
        extra=facts(verdict, told),
    )  # fmt: skip


def _log(verdict: Ack | Nack | Park) -> None:
    told = settlement(verdict)
    level = logging.INFO if told.status in _WORDS else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    why = error_of(verdict) or told.reason
    logger.log(
        level,
        "job %s on queue %r %s, attempt %d%s%s",
        one_line(told.id), told.queue, _WORDS.get(told.status, "goes back"), told.attempt,
        f", {told.run.seconds:.3g} s" if told.run else "", f": {one_line(why)}" if why else "",
        extra=facts(verdict, told),
    )  # fmt: skip
