"""Verdicts: what follows from an outcome, and from a message that may not run; pure functions."""

import logging

from msgspec import UNSET, structs

from tenure.backends.contract import Abandon, Ack, Lease, Nack, Park, Verdict
from tenure.clock import MICROSECOND
from tenure.definition.duration import to_seconds
from tenure.definition.failure import Failure
from tenure.definition.job import DEFAULT_MAX_CRASHES
from tenure.definition.retry import Backoff, RetryPolicy
from tenure.events import Run, Settlement, Status
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome
from tenure.wire.envelope import Envelope

logger = logging.getLogger(__name__)

REJECTED = frozenset(
    {"malformed", "bad_signature", "unknown_key", "unsupported_version", "forbidden", "invalid_payload"}
    | {"out_of_scope", "wrong_audience"}
)
REASONS = REJECTED | {"retries_exhausted", "timeout", "crash_loop", "unknown_handler", "newer_payload"}
UNSTARTED = "unstarted"
SKIPPED = "skipped-idempotent"


def decide(attempt: Attempt, outcome: Outcome, default: RetryPolicy, run: Run | None = None) -> Verdict:
    """Done, again, or dead: the one place that says so; what the attempt took goes along with it."""
    if outcome.kind == "succeeded":
        return Ack(lease=attempt.ticket, seconds=outcome.seconds, output=outcome.output, run=run)
    if run and outcome.failure:
        outcome = structs.replace(outcome, failure=structs.replace(outcome.failure, run=run))
    return structs.replace(_without_success(attempt, outcome, default), run=run)


def run_of(attempt: Attempt, outcome: Outcome, worker: str | None) -> Run:
    """What is kept of an attempt; a job that comes back has waited for more than a worker."""
    lease: Lease = attempt.ticket
    wait = max(0, outcome.started - lease.due) / MICROSECOND if lease.fence == 1 else None
    return Run(
        attempt.envelope.job,
        outcome.started,
        outcome.seconds,
        wait,
        outcome.cpu,
        outcome.memory,
        worker,
        outcome.is_json,
    )


def _without_success(attempt: Attempt, outcome: Outcome, default: RetryPolicy) -> Ack | Nack | Abandon:
    lease: Lease = attempt.ticket
    match outcome.kind:
        case "cancelled":
            return Ack(lease=lease, state="cancelled", seconds=outcome.seconds, reason=outcome.reason)
        case "postponed":
            return Nack(lease=lease, delay=outcome.delay or 0.0, reason=outcome.reason)
        case "interrupted" | "neighbour":  # neither clears a suspect
            return Nack(lease=lease, charge="suspect" if lease.suspect else None, reason=outcome.reason)
        case "suspect":
            return Nack(lease=lease, charge="suspect", failure=outcome.failure, reason=outcome.reason)
        case "crashed":
            return _crashed(attempt, lease, outcome, default)
        case "unfit":
            return Abandon(lease=lease, reason=outcome.reason or "invalid_payload", failure=outcome.failure)
    if lease.attempts >= attempt.envelope.max_retries:
        reason = "timeout" if outcome.kind == "timed_out" else "retries_exhausted"
        return Abandon(lease=lease, reason=reason, charge="attempt", failure=outcome.failure)
    delay = outcome.delay
    if delay is None:
        delay = _pause(policy_for(attempt, default), lease.attempts + 1)
    return Nack(lease=lease, delay=delay, charge="attempt", failure=outcome.failure, reason=outcome.kind)


def _crashed(attempt: Attempt, lease: Lease, outcome: Outcome, default: RetryPolicy) -> Nack | Abandon:
    """The first crash is tried again at once, later ones with backoff, until the budget is spent."""
    if lease.crashes >= _crash_budget(attempt.envelope):
        return Abandon(lease=lease, reason="crash_loop", charge="crash", failure=outcome.failure)
    delay = _pause(policy_for(attempt, default), lease.crashes) if lease.crashes else 0.0
    return Nack(lease=lease, delay=delay, charge="crash", failure=outcome.failure, reason=outcome.reason)


def _crash_budget(envelope: Envelope) -> int:
    return DEFAULT_MAX_CRASHES if envelope.max_crashes is UNSET else envelope.max_crashes


def policy_for(attempt: Attempt, default: RetryPolicy) -> RetryPolicy:
    """The job's own policy, else its handler's, else the app's."""
    backoff = attempt.envelope.backoff
    return backoff if backoff is not UNSET else attempt.handler.retry or default


def _pause(policy: RetryPolicy, retry: int) -> float:
    """Seconds before a retry; a user's policy that fails or gives no such number costs neither job nor worker."""
    try:
        return to_seconds(policy.delay(retry), "the delay of a retry policy")
    except Exception:
        logger.exception("retry policy %r failed on retry %d; the default backoff stands in", policy, retry)
        return Backoff().delay(retry)


def refuse(lease: Lease, envelope: Envelope, now: int) -> Verdict | None:
    """A verdict for a message that opened well but may not run any more."""
    if lease.crashes > _crash_budget(envelope):
        story = f"{lease.crashes} workers vanished while they ran this job and nothing else"
        evidence = Failure(type="CrashLoop", message=story, at=now, attempt=lease.attempts + 1)
        return Abandon(lease=lease, reason="crash_loop", failure=evidence)
    if envelope.expires_at is not UNSET and envelope.expires_at.timestamp() * 1_000_000 <= now:
        return Ack(lease=lease, state="expired", reason=f"expired at {envelope.expires_at.isoformat()}")
    return None


_ENDED = {"done": Status.ACKED, "cancelled": Status.CANCELLED, "expired": Status.EXPIRED}


def status_of(verdict: Verdict) -> Status:
    if isinstance(verdict, Ack):
        if verdict.reason is not None and verdict.reason.startswith(SKIPPED):
            return Status.SKIPPED_IDEMPOTENT
        return _ENDED[verdict.state]
    if isinstance(verdict, Park):
        return Status.POSTPONED
    if isinstance(verdict, Nack):
        return Status.REQUEUED if verdict.charge in ("attempt", "crash") else Status.POSTPONED
    return Status.REJECTED if verdict.reason in REJECTED else Status.DEAD_LETTERED


def settlement(verdict: Verdict) -> Settlement:
    """What listeners are told about a verdict."""
    lease = verdict.lease
    if isinstance(verdict, Ack):
        return Settlement(
            lease.id, lease.queue, status_of(verdict), lease.attempts + 1, verdict.reason, False, verdict.run
        )
    failed = isinstance(verdict, (Nack, Abandon)) and verdict.charge in ("attempt", "crash")
    run = None if isinstance(verdict, Park) else verdict.run
    return Settlement(lease.id, lease.queue, status_of(verdict), lease.attempts + 1, verdict.reason, failed, run)
