"""The leaser: leases jobs as the inbox needs them, and hands the leases to the inbox unopened.

It never opens a message: the runner's thread does that when it takes the lease from the inbox (`pipeline.py`).
Each turn asks, in this order: does the inbox need jobs, is the backend up, do the limits of the worker allow more,
which queues are paused or out of tokens. What it gets goes to the inbox; when it gets nothing it waits.
RunLimits says when a worker that ends by itself (`burst`, `max_jobs`) has to end.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from tenure.backends.contract import Backend
from tenure.backends.messages import Lease
from tenure.errors import BackendError
from tenure.events import Leased, Listeners, Status
from tenure.worker.backend_breaker import BackendBreaker
from tenure.worker.guard_holder import Room
from tenure.worker.inbox import HeldLeases, Inbox
from tenure.worker.lane import Lane, WorkerOptions
from tenure.worker.pipeline import Pipeline
from tenure.worker.roles import GrowingDelay
from tenure.worker.settler import Settler
from tenure.worker.suspects import SuspectRunner

logger = logging.getLogger(__name__)

_LEASE_WAIT_SECONDS = 0.5  # how long one lease call may block, and so how long a stop may go unnoticed
_DEMAND_POLL_SECONDS = 0.02
_TURN_SECONDS = 0.05  # longer than the poll above, so that another lane can lease what this lane does not need


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What all lanes of one worker share."""

    backend: Backend
    options: WorkerOptions
    pipeline: Pipeline
    held: HeldLeases
    settler: Settler
    limits: "RunLimits"
    listeners: Listeners
    breaker: BackendBreaker
    suspects: SuspectRunner


class Leaser:
    """One per lane; ends when it is stopped, or when the worker has reached its limits."""

    def __init__(self, lane: Lane, inbox: Inbox, shared: SharedParts, on_answer: Callable[[], None]) -> None:
        """`on_answer` is called once, when the backend has answered for the first time."""
        self._lane = lane
        self._queues = list(lane.queues)
        self._inbox = inbox
        self._backend = shared.backend
        self._seconds = shared.options.lease_seconds
        self._limits = shared.limits
        self._held = shared.held
        self._suspects = shared.suspects
        self._only_suspects = shared.options.only_suspects
        self._took_suspect = False
        self._listeners = shared.listeners
        self._clock = shared.pipeline.clock
        self._guards = shared.pipeline.guards
        self._breaker = shared.breaker
        self._on_answer = on_answer
        self._stopping = threading.Event()
        self._delay = GrowingDelay()
        self._answered = False
        self._woke_parked = False
        self.demand_changed = threading.Event()
        self.ticked: float | None = None

    def run(self) -> None:
        while not (self._stopping.is_set() or self._limits.are_reached()):
            self.ticked = time.monotonic()
            self._turn()

    def stop(self) -> None:
        # Does not set demand_changed: the main thread may be inside that call when its signal handler calls this.
        self._stopping.set()

    def _turn(self) -> None:
        before = self._limits.before_lease()
        alone = self._takes_suspect()
        if self._limits.has_nothing(self) or (alone and len(self._held)):
            self._wait_for_demand()
            return
        wanted = self._inbox.demand(len(self._held))
        # The breaker is asked only if a lease follows: the lane that it chooses as the probe must call the backend.
        if wanted > 0 and self._breaker.failures and (pause := self._breaker.pause(self)) > 0:
            self._stopping.wait(min(pause, _LEASE_WAIT_SECONDS))
            return
        limit = self._limits.reserve(wanted) if wanted > 0 else 0
        if limit <= 0:
            self._wait_for_demand()
            return
        is_scarce = self._limits.are_shared and self._limits.are_reserved()
        self._lease(limit, before, is_scarce=is_scarce, alone=alone)

    def _takes_suspect(self) -> bool:
        """Whether the next lease is on a suspect; the leaser then waits until nothing is held, also by that suspect."""
        if self._took_suspect and not len(self._held):
            self._took_suspect, self._suspects.next_here = False, None  # now it is the turn of the other jobs
        return self._only_suspects or self._suspects.next_here is not None

    def _lease(self, limit: int, before: int | None, *, is_scarce: bool, alone: bool) -> None:
        began, asked = time.monotonic(), self._clock.monotonic()
        try:
            room, pause = self._guards.room(self._lane.order() if self._lane.weights else self._queues)
            leases = self._lease_from(room, limit, is_scarce=is_scarce, alone=alone) if room else []
            if leases:
                self._delay.reset()
                self._hand_over(leases, asked)
        except BackendError as error:
            self._on_failure(error)
            return
        finally:
            self._limits.release(limit)
        if room and self._breaker.failures:
            self._breaker.succeeded()
        if room and self._guards.outage.is_on:
            self._guards.outage.answered()
        self._report_answer()
        if not room and not self._limits.ends_when_empty:
            self._stopping.wait(min(pause, _LEASE_WAIT_SECONDS))  # until a queue has tokens or is resumed
        elif not leases:
            self._wait_for_jobs(began, before, is_scarce=is_scarce)

    def _lease_from(self, room: Room, limit: int, *, is_scarce: bool, alone: bool) -> list[Lease]:
        """Lease from the first portion that has jobs; while the leaser waits, from all, as few as suit each of them."""
        if alone:
            return self._lease_suspect([queue for portion, _ in room for queue in portion])
        # The first call does not wait: its answer shows that the backend is there.
        wait = 0.0 if self._limits.ends_when_empty or is_scarce or not self._answered else _LEASE_WAIT_SECONDS
        if len(room) > 1:
            for queues, room_left in room:
                if leases := self._backend.lease(queues, limit=min(limit, room_left), seconds=self._seconds):
                    self._report_answer()
                    return leases
        queues = [queue for portion, _ in room for queue in portion]
        room_left = min(left for _, left in room)
        leases = self._backend.lease(queues, limit=min(limit, room_left), seconds=self._seconds, wait=wait)
        self._report_answer()
        return leases

    def _lease_suspect(self, queues: list[str]) -> list[Lease]:
        if not self._only_suspects and self._suspects.next_here is not self._lane:
            return []  # it is the turn of another lane
        leases = self._backend.lease_suspect(queues, seconds=self._seconds)
        self._took_suspect = bool(leases)
        if not leases:
            self._suspects.next_here = None
        return leases

    def _hand_over(self, leases: list[Lease], asked: float) -> None:
        self._held.hold(leases, asked, self._seconds)
        self._woke_parked = False
        if self._listeners:
            for queue, same in groupby(leases, key=attrgetter("queue")):
                self._listeners.emit(Leased(queue, tuple([lease.id for lease in same])))
        self._inbox.fill(leases)

    def _report_answer(self) -> None:
        if not self._answered:
            self._answered = True
            self._on_answer()

    def _on_failure(self, error: BackendError) -> None:
        pause = self._breaker.failed()
        queues = ", ".join(self._lane.queues)
        if pause is None:
            self._guards.outage.failed(logger, f"leasing from {queues}", error)
            self._stopping.wait(self._delay.next())
        else:
            self._guards.outage.failed(logger, f"leasing from {queues}", error)
            logger.warning("the backend does not answer; the next try to lease from %s is in %.1f s", queues, pause)

    def _wait_for_jobs(self, began: float, before: int | None, *, is_scarce: bool) -> None:
        if self._limits.ends_when_empty:
            self._end_if_empty(before)
        elif is_scarce:
            self._stopping.wait(_TURN_SECONDS)
        elif time.monotonic() - began < _LEASE_WAIT_SECONDS / 2:  # this backend cannot block: poll it ever more slowly
            self._stopping.wait(self._delay.next())

    def _end_if_empty(self, before: int | None) -> None:
        """Nothing is ready; before the worker ends, jobs that are parked and can start now get their turn."""
        if before is None:
            self._wait_for_demand()
        elif self._woke_parked:
            self._limits.found_nothing(self, before)
        else:
            try:
                self._guards.wake_now(self._queues)
                self._woke_parked = True
            except BackendError as error:
                self._on_failure(error)

    def _wait_for_demand(self) -> None:
        self.demand_changed.wait(_DEMAND_POLL_SECONDS)
        self.demand_changed.clear()


class RunLimits:
    """The limits of one worker, counted over all its lanes.

    A burst ends when every lane has found its queues empty and no job was leased since: a job may enqueue another.
    """

    def __init__(
        self,
        options: WorkerOptions,
        lanes: int,
        held: HeldLeases,
        tally: Counter[Status],
        suspects_wait: Callable[[], bool] | None = None,
    ) -> None:
        """`suspects_wait` says whether a worker that ends when nothing is left has to wait for suspects."""
        self.ends_when_empty = options.burst
        self._max_jobs = options.max_jobs
        self._lanes = lanes
        self._held = held
        self._tally = tally
        self._suspects_wait = suspects_wait
        self._lock = threading.Lock()
        self._reserved = 0
        self._granted_when_empty: dict[object, int] = {}

    @property
    def are_shared(self) -> bool:
        return self._lanes > 1

    def drain(self) -> None:
        """From now on, end when no job is ready or running."""
        self.ends_when_empty = True

    def are_reached(self) -> bool:
        if self._max_jobs is not None and counted_jobs(self._tally) >= self._max_jobs:
            return True
        if not (self.ends_when_empty and self._every_lane_is_empty()):
            return False
        if self._suspects_wait is not None and self._suspects_wait():
            self._granted_when_empty.clear()  # a suspect may enqueue jobs
            return False
        return True

    def reserve(self, wanted: int) -> int:
        """How many of these may be leased; the leaser gives them back with `release` once its leases are held."""
        if self._max_jobs is None:
            return wanted
        with self._lock:
            # Read before the tally: a job that is settled in between counts twice, never not at all.
            unsettled = len(self._held) + self._reserved
            reserved = max(0, min(wanted, self._max_jobs - unsettled - counted_jobs(self._tally)))
            self._reserved += reserved
        return reserved

    def are_reserved(self) -> bool:
        """Whether nothing is left for other lanes: a lane that waited for jobs now would keep them from leasing."""
        if self._max_jobs is None:
            return False
        with self._lock:
            return len(self._held) + self._reserved + counted_jobs(self._tally) >= self._max_jobs

    def release(self, count: int) -> None:
        if self._max_jobs is not None:
            with self._lock:
                self._reserved -= count

    def before_lease(self) -> int | None:
        """What to pass to `found_nothing` if the lease that follows is empty; None while a held job may enqueue one."""
        granted = self._held.granted
        return None if len(self._held) else granted

    def found_nothing(self, lane: object, before: int | None) -> None:
        """This lane leased and got nothing; `before` is what `before_lease` returned."""
        if before is not None:
            self._granted_when_empty[lane] = before

    def has_nothing(self, lane: object) -> bool:
        """Whether this lane found its queues empty, and no lane was granted a lease since."""
        return self.ends_when_empty and self._granted_when_empty.get(lane) == self._held.granted

    def _every_lane_is_empty(self) -> bool:
        counts = list(self._granted_when_empty.values())
        return len(counts) == self._lanes and all(granted == self._held.granted for granted in counts)


def counted_jobs(tally: Counter[Status]) -> int:
    """How many jobs count towards `max_jobs`: all settled ones except those that were postponed at no cost."""
    return tally.total() - tally[Status.POSTPONED]
