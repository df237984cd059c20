"""FakeClock: a clock that moves only when a test advances it."""

import time
from datetime import datetime

from tenure.clock import MICROSECOND, to_microseconds


class FakeClock:
    """Starts at the present unless given an aware datetime; give it to `Tenure(..., clock=clock)`.

    Due times, leases and retention follow it. Blocking calls still wait in real time.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = time.time_ns() // 1000 if start is None else to_microseconds(start)
        self._monotonic = time.monotonic()

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._monotonic += seconds
        self.jump(seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, forward or back, as an administrator or a time server would."""
        self._now += round(seconds * MICROSECOND)
