"""The leaser: leases by demand and hands admitted attempts to the inbox."""

import logging
import threading
import time

from tenure.backends.contract import Backend, Lease, Nack
from tenure.errors import BackendError
from tenure.events import Leased, Listeners
from tenure.worker.holdings import Holdings
from tenure.worker.inbox import Inbox
from tenure.worker.lane import Lane
from tenure.worker.pauses import Pauses
from tenure.worker.pipeline import Pipeline
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
        pipeline: Pipeline,
        inbox: Inbox,
        holdings: Holdings,
        settler: Settler,
        listeners: Listeners,
    ) -> None:
        self._backend = backend
        self._lane = lane
        self._pipeline = pipeline
        self._inbox = inbox
        self._holdings = holdings
        self._settler = settler
        self._listeners = listeners
        self._stopping = threading.Event()
        self._run_alone = False
        self.room = threading.Event()

    def run(self) -> None:
        pauses = Pauses()
        while not (self._stopping.is_set() or self._has_run_all()):
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
            if leases:
                pauses.reset()
                self._hand_on(leases, asked)
            elif not self._lane.burst:
                if time.monotonic() - asked < _WAIT / 2:  # a backend that cannot block is polled, ever more slowly
                    self._stopping.wait(pauses.longer())
            elif holds_nothing:
                return
            else:
                self._wait_for_room()

    def stop(self) -> None:
        # Not room.set() too: the main thread may be inside that very call when its signal handler comes here.
        self._stopping.set()

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
        wait = 0.0 if self._lane.burst else _WAIT
        return self._backend.lease(self._lane.order(), limit=limit, seconds=self._lane.lease_seconds, wait=wait)

    def _hand_on(self, leases: list[Lease], asked: float) -> None:
        self._run_alone = leases[0].suspect and len(self._holdings) > 0
        # The lease counts from before it was asked for: what the network took is gone.
        self._holdings.hold(leases, asked, self._lane.lease_seconds)
        if self._run_alone:  # a suspect that shares the worker could be charged for what another job does
            self._settler.settle(Nack(lease=leases[0], charge="suspect", reason="suspect"))
            return
        attempts, verdicts = self._pipeline.admit(leases)
        if self._listeners:
            for queue in dict.fromkeys(lease.queue for lease in leases):
                self._listeners.emit(Leased(queue, tuple(lease.id for lease in leases if lease.queue == queue)))
        for verdict in verdicts:
            self._settler.settle(verdict)
        self._inbox.fill(attempts)
        if not attempts:
            self._settler.hurry()

    def _wait_for_room(self) -> None:
        self.room.wait(_ROOM)
        self.room.clear()
