"""Inbox: leased attempts waiting for the runner, and how fast they go."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from tenure.execution.attempt import Attempt
from tenure.worker import prefetch

_SMOOTHING = 0.1


class Inbox:
    """Filled in batches by the leaser, emptied one by one by the runner, without a lock while there is work."""

    def __init__(self, concurrency: int, on_idle: Callable[[], None]) -> None:
        self._attempts: deque[tuple[float, Attempt]] = deque()
        self._arrived = threading.Condition()
        self._concurrency = concurrency
        self._on_idle = on_idle
        self._closed = False
        self._running = 0
        self._mean: float | None = None
        self._last_start = 0.0

    def fill(self, attempts: Sequence[Attempt]) -> None:
        now = time.monotonic()
        self._attempts.extend([(now, attempt) for attempt in attempts])
        with self._arrived:
            self._arrived.notify_all()

    def take(self) -> Attempt | None:
        """The next attempt, as soon as there is one; None once the inbox is closed and empty."""
        while True:
            try:
                _, attempt = self._attempts.popleft()
            except IndexError:
                if self._closed:
                    return None
                self._on_idle()
                with self._arrived:
                    self._arrived.wait_for(lambda: self._attempts or self._closed)
            else:
                self._running += 1
                self._last_start = time.monotonic()
                return attempt

    def finished(self, seconds: float) -> None:
        """An attempt is over: its duration teaches how far to fetch ahead."""
        self._running -= 1
        self._mean = seconds if self._mean is None else self._mean + _SMOOTHING * (seconds - self._mean)

    def demand(self, unsettled: int) -> int:
        idle = self._concurrency - self._running
        return prefetch.demand(
            idle=idle,
            concurrency=self._concurrency,
            waiting=len(self._attempts),
            unsettled=unsettled,
            mean=self._mean,
            busy=0.0 if idle else time.monotonic() - self._last_start,
        )

    def take_back(self, age: float = 0.0) -> list[Attempt]:
        """Attempts that have waited this long unstarted; they are no longer in the inbox."""
        oldest = time.monotonic() - age
        stale: list[Attempt] = []
        while self._attempts and self._attempts[0][0] <= oldest:
            try:
                filled, attempt = self._attempts.popleft()
            except IndexError:
                break
            if filled > oldest:
                self._attempts.appendleft((filled, attempt))
                break
            stale.append(attempt)
        return stale

    def close(self) -> None:
        self._closed = True
        with self._arrived:
            self._arrived.notify_all()
