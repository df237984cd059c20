"""Inbox: the leases that wait for the runner, and how many more jobs to lease.

The leaser fills it in batches and the runner takes attempts one by one, without a lock while there is work.
Leases are opened here, in the runner's thread, because the leaser's thread is the busier one: it waits for the backend.
HeldLeases holds the leases of the whole worker from grant to settlement, and when each is renewed or given up.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple, TypeVar

from tenure.backends.messages import Lease
from tenure.execution.attempt import Attempt

T = TypeVar("T")
PREFETCH_SECONDS = 0.05  # of work to hold ahead: covers one lease round trip many times
LEASE_BATCH = 500  # half of it drained a tenth slower on Redis and a fifth on SQLite
MAX_UNSETTLED = 3000  # limits memory, and the number of jobs that a crash hands to other workers
_SAFETY_MARGIN = 3.0  # a job must have stopped this many seconds before its lease expires, if it was not renewed
GUARDED_BATCH = 250  # where each batch costs a call of the store: 3 times the rate of _BATCH
_BATCH = 32  # leases opened at once: few enough that a stop finds most of them unopened
_SMOOTHING = 0.1
_POLL_SECONDS = 0.25  # a signal that arrives just before the wait begins is handled after it

Admit = Callable[[Sequence[Lease]], Sequence[Attempt]]


class Inbox:
    """Belongs to one lane. `batch_size` is how many leases are opened at once."""

    def __init__(
        self,
        concurrency: int,
        on_idle: Callable[[], None],
        admit: Admit,
        on_low: Callable[[], None] = lambda: None,
        seconds_left: Callable[[], float] = lambda: inf,
    ) -> None:
        """`on_idle` is called when a runner has nothing to do, `on_low` when it soon may have nothing to do.

        `seconds_left` says how long the leases of this worker last.
        """
        self._leases: deque[tuple[float, Lease]] = deque()
        self._attempts: deque[tuple[float, Attempt]] = deque()
        self._admit = admit
        self._arrived = threading.Condition()
        self._concurrency = concurrency
        self._on_idle = on_idle
        self._on_low = on_low
        self._low_mark = -1
        self.seconds_left = seconds_left
        self._closed = False
        self._running = 0
        self._mean_seconds: float | None = None
        self.last_start = 0.0
        self._notify_runner: Callable[[], None] = _do_nothing
        self.batch_size = _BATCH

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
                if self._open_batch():
                    continue
                if self._closed:
                    return None
                self._on_idle()
                with self._arrived:
                    self._arrived.wait_for(lambda: self._leases or self._attempts or self._closed, _POLL_SECONDS)
            else:
                self._running += 1
                self.last_start = time.monotonic()
                return attempt

    def take_up_to(self, limit: int, has_room: Callable[[Attempt], bool]) -> list[Attempt]:
        taken: list[Attempt] = []
        if self._closed:
            return taken  # attempts that are put back now go back to their queue
        while len(taken) < limit and (self._attempts or self._open_batch()):
            try:
                attempt = self._attempts.popleft()[1]
            except IndexError:
                continue  # handed back or refused in the meantime
            taken.append(attempt)
            if not has_room(attempt):
                break
        if not taken and self._running < self._concurrency:
            self._on_idle()
        if taken:
            self._running += len(taken)
            self.last_start = time.monotonic()
        return taken

    def put_back(self, attempts: Sequence[Attempt]) -> None:
        """Their waiting time counts as long: unless the runner starts them at once, they go back to their queue."""
        self._running -= len(attempts)
        self._attempts.extendleft((0.0, attempt) for attempt in reversed(attempts))

    def on_arrival(self, notify: Callable[[], None]) -> None:
        self._notify_runner = notify

    def resize(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def is_over(self) -> bool:
        return self._closed and not self._attempts and not self._leases

    def finished(self, seconds: float) -> None:
        """An attempt ended; its duration determines how far to lease ahead."""
        self._running -= 1
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + _SMOOTHING * (seconds - mean)

    def demand(self, unsettled: int) -> int:
        """How many jobs to lease now."""
        idle = self._concurrency - self._running
        waiting = len(self._leases) + len(self._attempts)
        wanted = demand(
            idle=max(0, idle),
            concurrency=self._concurrency,
            waiting=waiting,
            unsettled=unsettled,
            mean=self._mean_seconds,
            busy=0.0 if idle > 0 else time.monotonic() - self.last_start,
        )
        self._low_mark = -1 if wanted else waiting * 2 // 3  # with 750 waiting after a lease, 500 are few again
        return wanted

    def take_back(self, age: float = 0.0) -> list[Lease]:
        """Everything that waits, if the first has waited this long: the others are even further from starting.

        Taken from the far end, so that the runner continues in order at the same time.
        """
        first = next((queue[0][0] for queue in (self._attempts, self._leases) if queue), None)
        if first is None or time.monotonic() - first < age:
            return []
        leases = [lease for _, lease in _pop_all(self._leases)]
        attempts = [attempt.ticket for _, attempt in _pop_all(self._attempts)]
        return [*reversed(attempts), *reversed(leases)]

    def discard(self, leases: Sequence[Lease]) -> list[Lease]:
        """Remove what waits on these leases; returns the leases that were removed."""
        named = {(lease.id, lease.fence) for lease in leases}
        waiting = [item for item in list(self._leases) if (item[1].id, item[1].fence) in named]
        opened = [item for item in list(self._attempts) if (item[1].ticket.id, item[1].ticket.fence) in named]
        return [
            *(lease for _, lease in _remove(self._leases, waiting)),
            *(attempt.ticket for _, attempt in _remove(self._attempts, opened)),
        ]

    def close(self) -> None:
        self._closed = True
        self._announce()

    def _open_batch(self) -> bool:
        """Open the next leases; False when none waits."""
        batch: list[tuple[float, Lease]] = []
        try:
            while len(batch) < self.batch_size:
                batch.append(self._leases.popleft())
        except IndexError:
            if not batch:
                return False
        if len(self._leases) <= self._low_mark:
            self._low_mark = -1
            self._on_low()
        filled = batch[0][0]
        self._attempts.extend([(filled, attempt) for attempt in self._admit([lease for _, lease in batch])])
        return True

    def _announce(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
        self._notify_runner()


def demand(*, idle: int, concurrency: int, waiting: int, unsettled: int, mean: float | None, busy: float) -> int:
    """What can start now, plus what recent durations say will start within PREFETCH_SECONDS.

    So short jobs never wait for a lease, and long jobs never wait here while another worker is idle.
    `mean` is the recent duration of a job, None before the first; `busy` is how long the runner has run its last job.
    """
    ahead = 0 if mean is None or busy > PREFETCH_SECONDS else int(concurrency * PREFETCH_SECONDS / max(mean, 1e-5))
    target = min(idle + ahead, 4 * LEASE_BATCH)
    if waiting * 2 > target:
        return 0
    return max(0, min(target - waiting, LEASE_BATCH, MAX_UNSETTLED - unsettled))


def _do_nothing() -> None:
    """For runners that wait in `take` and need no notification."""


def _pop_all(queue: deque[T]) -> Iterator[T]:
    """Everything in a queue, the last first, while other threads take from its front."""
    try:
        while True:
            yield queue.pop()
    except IndexError:
        return


def _remove(queue: deque[T], items: Sequence[T]) -> Iterator[T]:
    for item in items:
        try:
            queue.remove(item)
        except ValueError:
            continue  # the runner has just taken it
        yield item


def give_up_after(seconds: float) -> float:
    """When to give up what is held for so many seconds and could not be renewed."""
    return seconds - _margin(seconds)


class Times(NamedTuple):
    """When leases are due for renewal, and when they are given up; those of one grant or renewal share one."""

    renew_at: float
    give_up_at: float


class HeldLeases:
    """One table, shared by all roles of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], tuple[Lease, Times]] = {}
        self.granted = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, leases: Sequence[Lease], asked: float, seconds: float) -> None:
        """Add leases that were granted; their time counts from `asked`, the moment before the call."""
        with self._lock:
            self.granted += len(leases)
            self._held.update(_entries(leases, asked, seconds))

    def renewed(self, leases: Sequence[Lease], asked: float, seconds: float) -> None:
        """These leases were renewed; those that were settled in the meantime are not added again."""
        with self._lock:
            self._held.update(_entries([lease for lease in leases if _key(lease) in self._held], asked, seconds))

    def drop(self, leases: Sequence[Lease]) -> list[Lease]:
        """Remove these leases; returns those that were held."""
        with self._lock:
            pop = self._held.pop
            dropped = [pop((lease.id, lease.fence), None) for lease in leases]
        return [entry[0] for entry in dropped if entry is not None]

    def leases(self) -> Sequence[Lease]:
        return [lease for lease, _ in list(self._held.values())]

    def renewable(self, now: float) -> Sequence[Lease]:
        """The leases that are due for renewal."""
        return [lease for lease, times in list(self._held.values()) if times.renew_at <= now]

    def overdue(self, now: float) -> Sequence[Lease]:
        """The leases that were not renewed in time: another worker may get them soon."""
        return [lease for lease, times in list(self._held.values()) if times.give_up_at <= now]

    def seconds_left(self, now: float, seconds: float) -> float:
        """How long jobs may run if this worker neither renews their leases nor stops them.

        `seconds` is the length of a lease that is granted now. The result is a little more than the time until
        `overdue`: a worker that is not stopped itself stops the jobs before.
        """
        first = min((times.give_up_at for _, times in list(self._held.values())), default=now + give_up_after(seconds))
        return first - now + _margin(seconds) / 2

    def by_queue(self) -> Counter[str]:
        """How many jobs of each queue are held."""
        return Counter(lease.queue for lease in self.leases())

    def ids(self, limit: int) -> tuple[str, ...]:
        """The jobs that have been held the longest."""
        return tuple(id for id, _ in list(self._held)[:limit])


def _key(lease: Lease) -> tuple[str, int]:
    return lease.id, lease.fence


def _entries(leases: Sequence[Lease], asked: float, seconds: float) -> dict[tuple[str, int], tuple[Lease, Times]]:
    times = Times(asked + seconds / 3, asked + give_up_after(seconds))
    return {(lease.id, lease.fence): (lease, times) for lease in leases}  # no call for each lease: 0.07 µs, not 0.33


def _margin(seconds: float) -> float:
    return min(_SAFETY_MARGIN, seconds / 5)
