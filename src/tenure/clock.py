"""The one place that reads time."""

import time
from datetime import UTC, datetime
from typing import Protocol

MICROSECOND = 1_000_000


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is measured."""

    def now(self) -> int:
        """UTC microseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()


def to_datetime(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / MICROSECOND, UTC)


def to_microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * MICROSECOND)
