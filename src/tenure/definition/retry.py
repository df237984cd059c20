"""Retry policies: how long a failed job waits before its next attempt."""

import random
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from tenure.definition.duration import is_length
from tenure.errors import InvalidJob

Strategy = Literal["none", "fixed", "exponential"]


@runtime_checkable
class RetryPolicy(Protocol):
    """Any object that turns the number of a retry (1 for the first) into seconds."""

    def delay(self, retry: int) -> float: ...


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

    def delay(self, retry: int) -> float:
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
