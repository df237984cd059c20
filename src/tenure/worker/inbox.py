"""Inbox: leases waiting for the runner, opened as it comes to them, and how fast they go."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tenure.backends.contract import Lease
from tenure.execution.attempt import Attempt
from tenure.worker import prefetch

T = TypeVar("T")
_SMOOTHING = 0.1
_LOOK = 0.25  # a signal that comes in the moment before the wait begins is heard after it
_OPENED = 32  # at a time: few enough that a stop finds most of them unopened
GUARDED = 250  # where each time costs a call of the store: 3 times the rate of the few

Admit = Callable[[Sequence[Lease]], Sequence[Attempt]]


class Inbox:
    """Filled in batches by the leaser, emptied one by one by the runner, without a lock while there is work.

    Leases are opened in the runner's thread, because the leaser's is the busier one: it waits for the backend.
    """

    def __init__(
        self, concurrency: int, on_idle: Callable[[], None], admit: Admit, on_low: Callable[[], None] = lambda: None
    ) -> None:
        """`on_idle` hears that a runner has nothing to do, `on_low` that it soon may have."""
        self._leases: deque[tuple[float, Lease]] = deque()
        self._attempts: deque[tuple[float, Attempt]] = deque()
        self._admit = admit
        self._arrived = threading.Condition()
        self._concurrency = concurrency
        self._on_idle = on_idle
        self._on_low = on_low
        self._low = -1
        self._closed = False
        self._running = 0
        self._mean: float | None = None
        self._last_start = 0.0
        self._tell: Callable[[], None] = _nobody
        self.at_once = _OPENED

    def fill(self, leases: Sequence[Lease]) -> None:
        now = time.monotonic()
        self._leases.extend([(now, lease) for lease in leases])
        self._announce()

    def take(self) -> Attempt | None:
        """The next attempt, as soon as there is one; None once the inbox is closed and empty."""
        while True:
            try:
                _, attempt = self._attempts.popleft()
            except IndexError:
                if self._open_some():
                    continue
                if self._closed:
                    return None
                self._on_idle()
                with self._arrived:
                    self._arrived.wait_for(lambda: self._leases or self._attempts or self._closed, _LOOK)
            else:
                self._running += 1
                self._last_start = time.monotonic()
                return attempt

    def take_up_to(self, most: int) -> list[Attempt]:
        taken: list[Attempt] = []
        if self._closed:
            return taken  # what is put back now goes back to its queue
        while len(taken) < most and (self._attempts or self._open_some()):
            try:
                taken.append(self._attempts.popleft()[1])
            except IndexError:
                continue  # handed back or refused meanwhile
        if not taken and self._running < self._concurrency:
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
        return self._closed and not self._attempts and not self._leases

    def finished(self, seconds: float) -> None:
        """An attempt is over: its duration teaches how far to fetch ahead."""
        self._running -= 1
        self._mean = seconds if self._mean is None else self._mean + _SMOOTHING * (seconds - self._mean)

    def demand(self, unsettled: int) -> int:
        idle = self._concurrency - self._running
        waiting = len(self._leases) + len(self._attempts)
        wanted = prefetch.demand(
            idle=max(0, idle),
            concurrency=self._concurrency,
            waiting=waiting,
            unsettled=unsettled,
            mean=self._mean,
            busy=0.0 if idle > 0 else time.monotonic() - self._last_start,
        )
        self._low = -1 if wanted else waiting * 2 // 3  # 750 wait after a lease, and 500 are few again
        return wanted

    def take_back(self, age: float = 0.0) -> list[Lease]:
        """Everything that waits, once the first has waited this long: what is behind it is further still from starting.

        Taken from the far end, so that the runner meanwhile goes on in order.
        """
        first = next((queue[0][0] for queue in (self._attempts, self._leases) if queue), None)
        if first is None or time.monotonic() - first < age:
            return []
        leases = [lease for _, lease in _emptied(self._leases)]
        attempts = [attempt.ticket for _, attempt in _emptied(self._attempts)]
        return [*reversed(attempts), *reversed(leases)]

    def discard(self, leases: Sequence[Lease]) -> list[Lease]:
        """Forget what waits on these leases; returns those that did."""
        named = {(lease.id, lease.fence) for lease in leases}
        waiting = [item for item in list(self._leases) if (item[1].id, item[1].fence) in named]
        opened = [item for item in list(self._attempts) if (item[1].ticket.id, item[1].ticket.fence) in named]
        return [
            *(lease for _, lease in _removed(self._leases, waiting)),
            *(attempt.ticket for _, attempt in _removed(self._attempts, opened)),
        ]

    def _open_some(self) -> bool:
        """Open the leases that come next; False when none waits."""
        batch: list[tuple[float, Lease]] = []
        try:
            while len(batch) < self.at_once:
                batch.append(self._leases.popleft())
        except IndexError:
            if not batch:
                return False
        if len(self._leases) <= self._low:
            self._low = -1
            self._on_low()
        filled = batch[0][0]
        self._attempts.extend([(filled, attempt) for attempt in self._admit([lease for _, lease in batch])])
        return True

    def close(self) -> None:
        self._closed = True
        self._announce()

    def _announce(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        self._tell()


def _nobody() -> None:
    """For runners that wait in `take` and need not be told."""


def _emptied(queue: deque[T]) -> Iterator[T]:
    """What is in a queue, the last first, taken out while others take from its front."""
    try:
        while True:
            yield queue.pop()
    except IndexError:
        return


def _removed(queue: deque[T], items: Sequence[T]) -> Iterator[T]:
    for item in items:
        try:
            queue.remove(item)
        except ValueError:
            continue  # it starts this very moment
        yield item
