"""Inbox: leased attempts waiting for the runner, and how fast they go."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from tenure.backends.contract import Lease
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
        self._tell: Callable[[], None] = _nobody

    def fill(self, attempts: Sequence[Attempt]) -> None:
        now = time.monotonic()
        self._attempts.extend([(now, attempt) for attempt in attempts])
        self._announce()

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

    def take_up_to(self, most: int) -> list[Attempt]:
        taken: list[Attempt] = []
        try:
            while len(taken) < most:
                taken.append(self._attempts.popleft()[1])
        except IndexError:
            if not taken and not self._running:
                self._on_idle()
        if taken:
            self._running += len(taken)
            self._last_start = time.monotonic()
        return taken

    def put_back(self, attempts: Sequence[Attempt]) -> None:
        """They have waited long enough to be handed back to the queue, should nobody start them at once."""
        self._running -= len(attempts)
        self._attempts.extendleft((0.0, attempt) for attempt in reversed(attempts))

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def resize(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def is_over(self) -> bool:
        return self._closed and not self._attempts

    def finished(self, seconds: float) -> None:
        """An attempt is over: its duration teaches how far to fetch ahead."""
        self._running -= 1
        self._mean = seconds if self._mean is None else self._mean + _SMOOTHING * (seconds - self._mean)

    def demand(self, unsettled: int) -> int:
        idle = self._concurrency - self._running
        return prefetch.demand(
            idle=max(0, idle),
            concurrency=self._concurrency,
            waiting=len(self._attempts),
            unsettled=unsettled,
            mean=self._mean,
            busy=0.0 if idle > 0 else time.monotonic() - self._last_start,
        )

    def take_back(self, age: float = 0.0) -> list[Attempt]:
        """Everything that waits, once the first has waited this long: what is behind it is further still from starting.

        Taken from the far end, so that the runner meanwhile goes on in order.
        """
        taken: list[Attempt] = []
        try:
            if time.monotonic() - self._attempts[0][0] >= age:
                while True:
                    taken.append(self._attempts.pop()[1])
        except IndexError:
            return taken[::-1]
        return taken

    def discard(self, leases: Sequence[Lease]) -> None:
        """Forget attempts that wait on these leases, which are no longer ours."""
        lost = {(lease.id, lease.fence) for lease in leases}
        for item in list(self._attempts):
            if (item[1].ticket.id, item[1].ticket.fence) in lost:
                try:
                    self._attempts.remove(item)
                except ValueError:
                    continue  # it starts this very moment

    def close(self) -> None:
        self._closed = True
        self._announce()

    def _announce(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        self._tell()


def _nobody() -> None:
    """For runners that wait in `take` and need not be told."""
