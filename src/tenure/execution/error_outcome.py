"""What follows from an exception: how an attempt that raised it ended.

It runs in the process that called the handler, because the exception itself exists only there.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tenure.clock import MICROSECOND, to_microseconds
from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.failure import Failure, from_exception, storable
from tenure.definition.retry import CheckedPolicy
from tenure.errors import (
    GAVE_UP,
    Cancel,
    Cancelled,
    CircuitOpen,
    DeadlineExceeded,
    Fail,
    InvalidJob,
    Refused,
    Retry,
    Snooze,
    StopNow,
)
from tenure.guards.guard import Refusal

if TYPE_CHECKING:
    from tenure.execution.attempt import Attempt


def facts_of_error(error: BaseException, attempt: "Attempt", now: int) -> dict[str, Any]:
    """The fields of the outcome of an attempt that raised: what the handler asked for, or what went wrong."""
    if isinstance(error, DeadlineExceeded):
        return {"kind": "timed_out", "failure": _timeout(error, attempt, now)}
    if isinstance(error, StopNow):
        return {"kind": "interrupted", "reason": "interrupted"}
    if isinstance(error, (Cancel, Cancelled)):
        return {"kind": "cancelled", "reason": storable(str(error)) if isinstance(error, Cancel) else Cancelled.reason}
    if isinstance(error, CircuitOpen) and error.key is not None:
        refusal = Refusal(error.key, "circuit_open", error.until)
        return {"kind": "postponed", "reason": refusal.reason, "refusal": refusal}
    if isinstance(error, (Retry, Snooze)):
        return _wait(error, attempt, now)
    failure = from_exception(error, now, attempt.number)
    if isinstance(error, Fail):
        kind = "unfit" if isinstance(error, Refused) else "failed"
        return {"kind": kind, "failure": failure, "reason": storable(str(error.reason))}
    rules = attempt.handler.errors
    if rules is not None and rules.gives_up(error):
        return {"kind": "failed", "failure": failure, "reason": GAVE_UP}
    return {"kind": "failed", "failure": failure, "delay": _policy_delay(error, attempt)}


def _policy_delay(error: BaseException, attempt: "Attempt") -> float | None:
    """The delay that a policy of the user wants; None if the worker can compute the delay, or the job has no retry."""
    policy, envelope = attempt.handler.retry, attempt.envelope
    if type(policy) is not CheckedPolicy or envelope.backoff is not UNSET or attempt.number > envelope.max_retries:
        return None
    return policy.delay(attempt.number, error if isinstance(error, Exception) else None)


def _wait(error: Retry | Snooze, attempt: "Attempt", now: int) -> dict[str, Any]:
    try:
        if isinstance(error, Snooze):
            until = seconds_until(error.until, now, "the time of Snooze")
            return {"kind": "postponed", "delay": until, "reason": storable(str(error))}
        delay = seconds_until(error.delay, now, "the delay of Retry") if error.delay is not None else None
    except InvalidJob as invalid:
        return {"kind": "failed", "failure": from_exception(invalid, now, attempt.number)}
    if delay is None:
        delay = _policy_delay(error, attempt)
    return {"kind": "retry", "failure": from_exception(error, now, attempt.number), "delay": delay}


def _timeout(error: DeadlineExceeded, attempt: "Attempt", now: int) -> Failure:
    where = from_exception(error, now, attempt.number)
    limit = "" if attempt.timeout is None else f" of {attempt.timeout:g} s"
    message = f"the attempt ran past its timeout{limit}"
    return Failure(
        type="TimedOut", message=message, at=now, attempt=where.attempt, place=where.place, trace=where.trace
    )


def seconds_until(until: Duration | datetime, now: int, what: str) -> float:
    """How long a handler wants to wait; 0 for a time in the past."""
    if isinstance(until, datetime):
        return max(0.0, (to_microseconds(to_moment(until, what)) - now) / MICROSECOND)
    if isinstance(until, timedelta):
        until = until.total_seconds()
    return 0.0 if isinstance(until, (int, float)) and until < 0 else to_seconds(until, what)
