"""Retry policies: how long a failed job waits before its next attempt.

A Backoff travels with its job, so every worker computes its delay. Any other policy is an object of the user. It is
asked in the process that called the handler, with the exception, which exists only there. After a crash or a timeout
the worker asks it, without one.
"""

import inspect
import logging
import random
import time
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from tenure.definition.callables import is_async
from tenure.definition.duration import Duration, is_length, to_seconds
from tenure.errors import InvalidHandler, InvalidJob

logger = logging.getLogger(__name__)

Strategy = Literal["none", "fixed", "exponential"]
_MAX_CAUSES = 10  # how many errors of a chain are searched for a Retry-After


@runtime_checkable
class RetryPolicy(Protocol):
    """Any object that turns the number of a retry (1 for the first) and an error into a delay.

    The error is the exception that the handler raised; None after a crash, a timeout or an exit of the handler.
    None for a delay leaves the decision to the policy of the app.
    """

    def delay(self, retry: int, error: Exception | None, /) -> Duration | None: ...


class Backoff(Struct, frozen=True, omit_defaults=True):
    """The built-in policies; a Backoff travels with the job, so any worker can compute the delay.

    `exponential` waits base × multiplier^(retry-1) ± jitter, never above cap; the first delay is the base.
    `fixed` always waits base; `none` retries at once.
    """

    strategy: Strategy = "exponential"
    base: float = 5.0
    multiplier: float = 2.0
    cap: float = 300.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.strategy not in ("none", "fixed", "exponential"):
            raise InvalidJob(f"backoff strategy must be 'none', 'fixed' or 'exponential', got {self.strategy!r}")
        if not (is_length(self.base) and is_length(self.cap) and self.multiplier >= 1 and 0 <= self.jitter <= 1):
            raise InvalidJob(
                f"backoff needs base and cap within 0 … 100 years, multiplier ≥ 1 and jitter within 0 … 1, got {self!r}"
            )

    def delay(self, retry: int, error: Exception | None = None) -> float:  # noqa: ARG002 - the same for every error
        return retry_delay(self, retry, random.random())  # noqa: S311 - jitter, not a secret


def retry_delay(backoff: Backoff, retry: int, chance: float) -> float:
    """Seconds before this retry; `chance` in [0, 1) selects the point within the jitter."""
    if backoff.strategy == "none" or retry < 1:
        return 0.0
    if backoff.strategy == "fixed":
        return backoff.base
    try:
        nominal = min(backoff.base * float(backoff.multiplier) ** (retry - 1), backoff.cap)
    except OverflowError:
        nominal = backoff.cap
    return min(backoff.cap, nominal * (1 + backoff.jitter * (2 * chance - 1)))


class CheckedPolicy:
    """A policy of the user; `default` decides where it has no valid answer."""

    def __init__(self, policy: RetryPolicy, whose: str, default: "Policy | None" = None) -> None:
        self._policy = policy
        self._whose = whose
        self._default = default or Backoff()
        self._has_logged = False

    def with_default(self, default: "Policy") -> "CheckedPolicy":
        return CheckedPolicy(self._policy, self._whose, default)

    def delay(self, retry: int, error: Exception | None = None) -> float:
        """Seconds before this retry. A policy that fails is logged once in each process, not for each job."""
        try:
            seconds = self._policy.delay(retry, error)
            if seconds is not None:
                return to_seconds(seconds, "the delay of a retry policy")
        except (Exception, SystemExit):
            if not self._has_logged:
                self._has_logged = True
                logger.exception(
                    "the retry policy of %s failed on retry %d; the default backoff is used instead", self._whose, retry
                )
        return self._default.delay(retry, error)


Policy = Backoff | CheckedPolicy  # always has an answer


def check_policy(policy: RetryPolicy | None, whose: str) -> Policy | None:
    """The policy in a form that always has an answer; refuses an object that is no policy. `whose` names its owner."""
    if policy is None or isinstance(policy, (Backoff, CheckedPolicy)):
        return policy
    method = getattr(policy, "delay", None)
    if isinstance(policy, type) or not callable(method) or is_async(method):
        raise InvalidHandler(
            f"the retry policy of {whose} must be an object with a method delay(retry, error) that is not async, "
            f"got {policy!r:.80}"
        )
    try:
        inspect.signature(method).bind(1, None)
    except TypeError:
        raise InvalidHandler(
            f"the retry policy of {whose} takes {inspect.signature(method)}; "
            "write it as delay(self, retry, error), where error is the exception, or None after a crash or a timeout"
        ) from None
    except ValueError:  # a method in C does not say what it takes
        pass
    return CheckedPolicy(policy, whose)


class RetryAfter:
    """Waits as long as the error says, up to `cap`; an error without a valid Retry-After waits by `default`.

    It finds `retry_after` of the error, and the header Retry-After in `headers` or `response.headers` of the error, as
    requests, httpx, aiohttp and urllib set them; then it searches the errors that caused it.
    Without a `default`, the backoff of the app applies.
    """

    def __init__(self, default: RetryPolicy | None = None, cap: Duration = "1h") -> None:
        check_policy(default, "RetryAfter")
        self._default = default
        self._cap = to_seconds(cap, "the cap of RetryAfter")

    def delay(self, retry: int, error: Exception | None = None) -> Duration | None:
        asked = find_retry_after(error, time.time())
        if asked is not None:
            return min(asked, self._cap)
        return None if self._default is None else self._default.delay(retry, error)


def find_retry_after(error: BaseException | None, now: float) -> float | None:
    """The seconds that an error, or the first of its causes, asks to wait; `now` is Unix time."""
    for _ in range(_MAX_CAUSES):
        if error is None:
            break
        found = (_attribute(error, "retry_after"), _header(error), _header(_attribute(error, "response")))
        for value in found:
            if (seconds := retry_after(value, now)) is not None:
                return seconds
        error = error.__cause__
    return None


def _header(answer: Any) -> Any:
    get = _attribute(_attribute(answer, "headers"), "get")
    return get("Retry-After", get("retry-after")) if callable(get) else None


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # errors of other libraries have attributes with code of their own
        return None


def retry_after(value: Any, now: float) -> float | None:
    """The seconds of a Retry-After: a number, or text with a number or an HTTP date; None if it is not valid."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, datetime):
        value = None if value.tzinfo is None else max(0.0, value.timestamp() - now)
    elif isinstance(value, str):
        value = _parse_retry_after(value.strip(), now)
    return float(value) if is_length(value) and not isinstance(value, bool) else None


def _parse_retry_after(text: str, now: float) -> float | None:
    if text.isascii() and text.replace(".", "", 1).isdecimal():
        return float(text[:9])
    import email.utils  # imported on use: few errors carry a date

    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
