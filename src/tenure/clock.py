"""Clock: the only place that reads the time."""

import time
from datetime import UTC, datetime
from typing import Protocol

MICROSECOND = 1_000_000  # microseconds per second


class Clock(Protocol):
    """Wall time for stored values, monotonic time for measurements."""

    def now(self) -> int:
        """UTC microseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that is never set."""
        ...


class SystemClock:
    """The clocks of the host."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()


def to_datetime(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / MICROSECOND, UTC)


def to_microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * MICROSECOND)
