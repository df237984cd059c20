"""Verdicts: what follows from an outcome, and from a message that may not run; pure functions."""

from msgspec import UNSET

from tenure.backends.contract import Abandon, Ack, Lease, Nack, Verdict
from tenure.definition.retry import RetryPolicy
from tenure.events import Settlement, Status
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome
from tenure.wire.envelope import Envelope

REJECTED = frozenset(
    {"malformed", "bad_signature", "unknown_key", "unsupported_version", "forbidden", "invalid_payload"}
)
UNSTARTED = "unstarted"


def decide(attempt: Attempt, outcome: Outcome, default: RetryPolicy) -> Verdict:
    """Done, again, or dead: the one place that says so."""
    lease: Lease = attempt.ticket
    match outcome.kind:
        case "succeeded":
            return Ack(lease=lease, seconds=outcome.seconds, output=outcome.output)
        case "cancelled":
            return Ack(lease=lease, state="cancelled", seconds=outcome.seconds, reason=outcome.reason)
        case "postponed":
            return Nack(lease=lease, delay=outcome.delay or 0.0, reason=outcome.reason)
        case "interrupted":
            return Nack(lease=lease, reason=outcome.reason)
        case "unfit":
            return Abandon(lease=lease, reason="invalid_payload", failure=outcome.failure)
    if lease.attempts >= attempt.envelope.max_retries:
        reason = "timed_out" if outcome.kind == "timed_out" else "failed"
        return Abandon(lease=lease, reason=reason, charge="attempt", failure=outcome.failure)
    delay = outcome.delay
    if delay is None:
        delay = policy_for(attempt, default).delay(lease.attempts + 1)
    return Nack(lease=lease, delay=delay, charge="attempt", failure=outcome.failure, reason=outcome.kind)


def policy_for(attempt: Attempt, default: RetryPolicy) -> RetryPolicy:
    """The job's own policy, else its handler's, else the app's."""
    backoff = attempt.envelope.backoff
    return backoff if backoff is not UNSET else attempt.handler.retry or default


def refuse(lease: Lease, envelope: Envelope, now: int) -> Verdict | None:
    """A verdict for a message that opened well but may not run any more."""
    allowed = 3 if envelope.max_crashes is UNSET else envelope.max_crashes
    if lease.crashes > allowed:
        return Abandon(lease=lease, reason="crash_loop")
    if envelope.expires_at is not UNSET and envelope.expires_at.timestamp() * 1_000_000 <= now:
        return Ack(lease=lease, state="expired", reason=f"expired at {envelope.expires_at.isoformat()}")
    return None


def status_of(verdict: Verdict) -> Status:
    match verdict:
        case Ack(state="done"):
            return Status.ACKED
        case Ack(state="cancelled"):
            return Status.CANCELLED
        case Ack():
            return Status.EXPIRED
        case Nack(charge=None):
            return Status.POSTPONED
        case Nack():
            return Status.REQUEUED
        case Abandon(reason=reason) if reason in REJECTED:
            return Status.REJECTED
    return Status.DEAD_LETTERED


def settlement(verdict: Verdict) -> Settlement:
    """What listeners are told about a verdict."""
    lease = verdict.lease
    failed = not isinstance(verdict, Ack) and verdict.charge is not None
    return Settlement(lease.id, lease.queue, status_of(verdict), lease.attempts + 1, verdict.reason, failed)
