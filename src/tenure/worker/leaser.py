"""The leaser: leases by demand and hands admitted attempts to the inbox."""

import logging
import threading
import time
from itertools import groupby
from operator import attrgetter

from tenure.backends.contract import Backend, Lease, Nack
from tenure.errors import BackendError
from tenure.events import Leased, Listeners
from tenure.worker.holdings import Holdings
from tenure.worker.inbox import Inbox
from tenure.worker.lane import Lane
from tenure.worker.pauses import Pauses
from tenure.worker.settler import Settler

logger = logging.getLogger(__name__)

_WAIT = 0.5  # how long one lease call may block: the time a stop may take to be noticed
_ROOM = 0.02


class Leaser:
    """Ends when told to stop, or when a bounded lane has nothing left to do."""

    def __init__(
        self,
        backend: Backend,
        lane: Lane,
        inbox: Inbox,
        holdings: Holdings,
        settler: Settler,
        listeners: Listeners,
    ) -> None:
        self._backend = backend
        self._lane = lane
        self._inbox = inbox
        self._holdings = holdings
        self._settler = settler
        self._listeners = listeners
        self._stopping = threading.Event()
        self._burst = lane.burst
        self._run_alone = False
        self.room = threading.Event()
        self.ready = threading.Event()
        self.ticked: float | None = None

    def run(self) -> None:
        pauses = Pauses()
        while not (self._stopping.is_set() or self._has_run_all()):
            self.ticked = time.monotonic()
            holds_nothing = not len(self._holdings)
            limit = self._limit()
            if limit <= 0:
                self._wait_for_room()
                continue
            asked = time.monotonic()
            try:
                leases = self._lease(limit)
            except BackendError as error:
                logger.warning("leasing from %s failed, trying again: %s", ", ".join(self._lane.queues), error)
                self._stopping.wait(pauses.longer())
                continue
            self.ready.set()
            if leases:
                pauses.reset()
                self._hand_on(leases, asked)
            elif not self._burst:
                if time.monotonic() - asked < _WAIT / 2:  # a backend that cannot block is polled, ever more slowly
                    self._stopping.wait(pauses.longer())
            elif holds_nothing:
                return
            else:
                self._wait_for_room()

    def stop(self) -> None:
        # Not room.set() too: the main thread may be inside that very call when its signal handler comes here.
        self._stopping.set()

    def drain(self) -> None:
        """From now on end when nothing is ready or in flight."""
        self._burst = True

    def _has_run_all(self) -> bool:
        return self._lane.most is not None and self._lane.ran(self._settler.tally) >= self._lane.most

    def _limit(self) -> int:
        if self._holdings.has_suspect() or (self._run_alone and len(self._holdings)):
            return 0  # a suspect runs alone: if this worker vanishes now, it is known why
        limit = self._inbox.demand(len(self._holdings))
        if self._lane.most is None:
            return limit
        return min(limit, self._lane.most - self._lane.ran(self._settler.tally) - len(self._holdings))

    def _lease(self, limit: int) -> list[Lease]:
        # The first answer says that the backend is there, so it is not waited for.
        wait = 0.0 if self._burst or not self.ready.is_set() else _WAIT
        return self._backend.lease(self._lane.order(), limit=limit, seconds=self._lane.lease_seconds, wait=wait)

    def _hand_on(self, leases: list[Lease], asked: float) -> None:
        self._run_alone = leases[0].suspect and len(self._holdings) > 0
        # The lease counts from before it was asked for: what the network took is gone.
        self._holdings.hold(leases, asked, self._lane.lease_seconds)
        if self._run_alone:  # a suspect that shares the worker could be charged for what another job does
            self._settler.settle(Nack(lease=leases[0], charge="suspect", reason="suspect"))
            return
        if self._listeners:
            for queue, same in groupby(leases, key=attrgetter("queue")):
                self._listeners.emit(Leased(queue, tuple([lease.id for lease in same])))
        self._inbox.fill(leases)

    def _wait_for_room(self) -> None:
        self.room.wait(_ROOM)
        self.room.clear()
