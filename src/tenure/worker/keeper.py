"""The keeper: renews the leases of this worker, and hands back jobs that wait too long to start.

It renews from its own thread, so that a lease lives as long as its job; nothing that can wait for other workers is done
in that thread. A second thread, the lease watchdog, acts while the backend does not answer: it gives up the leases that
could not be renewed in time. The guard keeper and the reaper, each in a thread of its own, renew guards and reap.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from tenure.backends.contract import Backend
from tenure.backends.messages import Lease, ReapedLease
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError
from tenure.events import LeaseLost, Listeners, Reaped
from tenure.worker.inbox import HeldLeases
from tenure.worker.lane import WorkerOptions
from tenure.worker.pipeline import Pipeline
from tenure.worker.roles import OutageLog

logger = logging.getLogger(__name__)

GiveUp = Callable[[Sequence[Lease]], None]
_TICK_SECONDS = 0.1
_UNSTARTED_SECONDS = 0.25  # a job that waits longer goes back to its queue: other workers may be idle
_CLOCK_JUMP_SECONDS = 1.0
_SLOW_CALL_SECONDS = 0.5  # after a call without answer for this long, a renewal may come too late
_REST_LEASES = 4  # after an outage the reaper waits for one lease, at most once in so many: a backend may flap
_GUARD_RETRY_SECONDS = 1.0
_SETTLE_SECONDS = 0.02  # from the settlement in the backend until the lease is no longer held


class Keeper:
    """Works in ticks; if the backend fails, the next tick tries again."""

    def __init__(
        self,
        backend: Backend,
        options: WorkerOptions,
        held: HeldLeases,
        listeners: Listeners,
        pipeline: Pipeline,
        hand_back: Callable[[float], None],
        lose: Callable[[Sequence[Lease]], None],
    ) -> None:
        """`hand_back` returns jobs that have waited this long unstarted; `lose` stops what runs on a lost lease."""
        self._backend = backend
        self._options = options
        self._held = held
        self._listeners = listeners
        self._clock = pipeline.clock
        self._guards = pipeline.guards
        self._hand_back = hand_back
        self._lose = lose
        self._stopping = threading.Event()
        self._tick_began: float | None = None

    def run(self) -> None:
        threading.Thread(target=self._watch_renewals, name="tenure-lease-watchdog", daemon=True).start()
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.tick()
            except BackendError as error:
                self._guards.outage.failed(logger, "renewing leases", error)

    def stop(self) -> None:
        self._stopping.set()

    def tick(self) -> None:
        self._tick_began = now = self._clock.monotonic()
        try:
            self._hand_back(_UNSTARTED_SECONDS)
            self._renew(now)
        finally:
            self._tick_began = None

    def _renew(self, now: float) -> None:
        leases = self._held.renewable(now)
        if not leases:
            return
        try:
            lost = self._backend.renew(leases, seconds=self._options.lease_seconds)
        except BackendError:
            self.give_up(self._held.overdue(self._clock.monotonic()))
            raise
        self._held.renewed(leases, now, self._options.lease_seconds)
        if self._guards.outage.is_on:
            self._guards.outage.answered()
        if lost:
            self._stopping.wait(_SETTLE_SECONDS)  # a lease that seems lost may just have been settled by this worker
            self.give_up(lost)

    def _watch_renewals(self) -> None:
        """Give up leases that were not renewed in time while the backend did not answer, or whose guards were not."""
        while not self._stopping.wait(_TICK_SECONDS):
            began, now = self._tick_began, self._clock.monotonic()
            if began is not None and now - began > _SLOW_CALL_SECONDS:
                self.give_up(self._held.overdue(now))
            self.give_up(self._guards.overdue(time.monotonic()))

    def give_up(self, lost: Sequence[Lease]) -> None:
        """Stop the jobs of leases that this worker no longer holds: another worker may run them at any moment."""
        dropped = self._held.drop(lost)
        if not dropped:
            return
        logger.warning("%d leases were lost while their jobs ran; those jobs run again elsewhere", len(dropped))
        self._lose(dropped)
        self._listeners.emit(LeaseLost(tuple(lease.id for lease in dropped), "renew"))


class GuardKeeper:
    """Renews the guards of running jobs, and wakes jobs that wait for a guard; a neighbour can make it wait for both.

    Where the backend stores the guards, a job keeps its guards as long as its lease: a late renewal costs nothing.
    """

    def __init__(self, pipeline: Pipeline, held: HeldLeases, options: WorkerOptions, give_up: GiveUp) -> None:
        """`give_up` stops the jobs that have lost a guard."""
        self._guards = pipeline.guards
        self._clock = pipeline.clock
        self._held = held
        self._seconds = options.lease_seconds
        self._new_queues = options.queues
        self._give_up = give_up
        self._stopping = threading.Event()
        self._renew_at = 0.0

    def run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.tick()
            except BackendError as error:
                self._guards.outage.failed(logger, "renewing guards", error)

    def stop(self) -> None:
        self._stopping.set()

    def tick(self) -> None:
        if self._new_queues:
            self._guards.adopt_rates(self._new_queues)
            self._new_queues = ()
        self._guards.wake_parked(time.monotonic())  # real time, not the clock's: the waits use it too
        now = self._clock.monotonic()
        if now < self._renew_at:
            return
        self._renew_at = now + min(_GUARD_RETRY_SECONDS, self._seconds / 3)
        lost = self._guards.renew(self._held.leases())
        self._renew_at = now + self._seconds / 3
        if lost:
            self._stopping.wait(_SETTLE_SECONDS)  # this worker may just have settled them
            self._give_up(lost)


class Reaper:
    """Reaps expired leases of all workers, except while live leases may look expired.

    That is for one lease after a jump of the clock, and after an outage of the backend: its workers settle first what
    ended meanwhile, and renew what still runs.
    """

    def __init__(
        self,
        backend: Backend,
        options: WorkerOptions,
        listeners: Listeners,
        clock: Clock,
        outage: OutageLog | None = None,
    ) -> None:
        self._backend = backend
        self._outage = outage or OutageLog()
        self._options = options
        self._listeners = listeners
        self._clock = clock
        self._stopping = threading.Event()
        self._reap_at = 0.0
        self._away_since: float | None = None
        self._last_rest = float("-inf")
        self._clock_offset = self._wall_minus_monotonic()

    def run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.tick()
            except BackendError as error:
                self._outage.failed(logger, "reaping leases", error)

    def stop(self) -> None:
        self._stopping.set()

    def tick(self) -> None:
        now = self._clock.monotonic()
        if now >= self._reap_at and not self._clock_jumped(now):
            self._reap_at = now + self._options.lease_seconds / 3
            if not self._was_away(now):
                self._reap()

    def _was_away(self, now: float) -> bool:
        """Ask the backend for its time first: a call to reap that waits in an outage would reap at its end."""
        if self._backend.ledger is None:
            return False  # a broker that takes back expired leases itself
        self._away_since = began = now if self._away_since is None else self._away_since
        self._backend.ledger.time()
        self._away_since = None
        answered, seconds = self._clock.monotonic(), self._options.lease_seconds
        if answered - began < seconds / 3 or answered - self._last_rest < _REST_LEASES * seconds:
            return False
        logger.warning("the backend was away for %.0f s; nothing is reaped for %g s", answered - began, seconds)
        self._last_rest = answered
        self._reap_at = answered + seconds
        return True

    def _reap(self) -> None:
        reaped = self._backend.reap(self._options.queues, suspect_after=self._options.suspect_after)
        if reaped:
            logger.warning("%d leases of vanished workers expired; their jobs are ready again", len(reaped))
            for event in reaped_events(reaped):
                self._listeners.emit(event)

    def _clock_jumped(self, now: float) -> bool:
        """After a jump of the wall clock, live leases may look expired: wait one lease until all are renewed."""
        offset = self._wall_minus_monotonic()
        jumped = abs(offset - self._clock_offset) > _CLOCK_JUMP_SECONDS
        self._clock_offset = offset
        if jumped:
            logger.warning("the clock jumped; nothing is reaped for %g s", self._options.lease_seconds)
            self._reap_at = now + self._options.lease_seconds
        return jumped

    def _wall_minus_monotonic(self) -> float:
        return self._clock.now() / MICROSECOND - self._clock.monotonic()


def reaped_events(reaped: Sequence[ReapedLease]) -> Iterator[Reaped]:
    """One event for each queue."""
    for queue in dict.fromkeys(each.queue for each in reaped):
        ours = [each for each in reaped if each.queue == queue]
        yield Reaped(queue, tuple(each.id for each in ours), tuple(each.id for each in ours if each.crashed))
