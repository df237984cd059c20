"""The leaser: leases by demand and hands admitted attempts to the inbox."""

import logging
import threading
import time
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter

from tenure.backends.contract import Lease, Nack
from tenure.errors import BackendError
from tenure.events import Leased
from tenure.worker.inbox import Inbox
from tenure.worker.lane import Lane
from tenure.worker.pauses import Pauses
from tenure.worker.shared import Shared
from tenure.worker.verdict import UNSTARTED
from tenure.worker.warden import Room

logger = logging.getLogger(__name__)

_WAIT = 0.5  # how long one lease call may block: the time a stop may take to be noticed
_ROOM = 0.02
_TURN = 0.05  # longer than _ROOM: another lane that waits for what this one does not need has a turn


class Leaser:
    """One for each lane; ends when told to stop, or when a bounded worker has nothing left to do."""

    def __init__(self, lane: Lane, inbox: Inbox, shared: Shared, on_answer: Callable[[], None]) -> None:
        """`on_answer` is called once, when the backend has answered."""
        self._lane = lane
        self._inbox = inbox
        self._backend = shared.backend
        self._seconds = shared.terms.lease_seconds
        self._bounds = shared.bounds
        self._holdings = shared.holdings
        self._settler = shared.settler
        self._listeners = shared.listeners
        self._warden = shared.pipeline.warden
        self._outage = shared.outage
        self._on_answer = on_answer
        self._stopping = threading.Event()
        self._pauses = Pauses()
        self._answered = False
        self.room = threading.Event()
        self.ticked: float | None = None

    def run(self) -> None:
        try:
            while not (self._stopping.is_set() or self._bounds.are_reached()):
                self.ticked = time.monotonic()
                self._turn()
        finally:
            self._holdings.go_on(self)

    def stop(self) -> None:
        # Not room.set() too: the main thread may be inside that very call when its signal handler comes here.
        self._stopping.set()

    def _turn(self) -> None:
        before = self._bounds.before_looking()
        if self._bounds.has_nothing(self) or not self._holdings.may_grow(self):
            self._wait_for_room()
            return
        wanted = self._inbox.demand(len(self._holdings))
        if wanted > 0 and (pause := self._outage.pause(self)) > 0:  # whoever is the probe must then ask
            self._stopping.wait(min(pause, _WAIT))
            return
        limit = self._bounds.claim(wanted) if wanted > 0 else 0
        if limit <= 0:
            self._wait_for_room()
            return
        is_scarce = limit < wanted and self._bounds.are_shared
        asked = time.monotonic()
        try:
            room, pause = self._warden.room(self._lane.order())
            leases = self._lease(room, limit, asked, is_scarce=is_scarce) if room else []
        except BackendError as error:
            self._fail(error)
            return
        finally:
            self._bounds.unclaim(limit)
        if room and self._outage.over():
            logger.warning("the backend answers again")
        self._answer()
        if not room and not self._bounds.ends_when_empty:
            self._stopping.wait(min(pause, _WAIT))  # until there is a token, or the pause is over
        elif not leases:
            self._wait_for_work(asked, before, is_scarce=is_scarce)

    def _fail(self, error: BackendError) -> None:
        pause = self._outage.failed()
        queues = ", ".join(self._lane.queues)
        if pause is None:
            logger.warning("leasing from %s failed, trying again: %s", queues, error)
            self._stopping.wait(self._pauses.longer())
        else:
            logger.warning(
                "leasing from %s failed, and not for the first time; next try in %.1f s: %s", queues, pause, error
            )

    def _lease(self, room: Room, limit: int, asked: float, *, is_scarce: bool) -> list[Lease]:
        # The first answer says that the backend is there, so it is not waited for.
        wait = 0.0 if self._bounds.ends_when_empty or is_scarce or not self._answered else _WAIT
        leases = self._lease_from(room, limit, wait)
        self._answer()
        if leases:
            self._pauses.reset()
            self._hand_on(leases, asked)
        return leases

    def _answer(self) -> None:
        if not self._answered:
            self._answered = True
            self._on_answer()

    def _lease_from(self, room: Room, limit: int, wait: float) -> list[Lease]:
        """From the first portion that has any; what is waited for is few enough for all of them."""
        if len(room) > 1:
            for queues, most in room:
                if leases := self._backend.lease(queues, limit=min(limit, most), seconds=self._seconds):
                    return leases
        queues = [queue for portion, _ in room for queue in portion]
        most = min(most for _, most in room)
        return self._backend.lease(queues, limit=min(limit, most), seconds=self._seconds, wait=wait)

    def _wait_for_work(self, asked: float, before: int | None, *, is_scarce: bool) -> None:
        self._holdings.go_on(self)
        if self._bounds.ends_when_empty:
            self._bounds.found_nothing(self, before)
            if before is None:
                self._wait_for_room()
        elif is_scarce:
            self._stopping.wait(_TURN)
        elif time.monotonic() - asked < _WAIT / 2:  # a backend that cannot block is polled, ever more slowly
            self._stopping.wait(self._pauses.longer())

    def _hand_on(self, leases: list[Lease], asked: float) -> None:
        # The lease counts from before it was asked for: what the network took is gone.
        if not self._holdings.hold(leases, asked, self._seconds):
            self._hand_back(leases)
            return
        self._holdings.go_on(self)
        if self._listeners:
            for queue, same in groupby(leases, key=attrgetter("queue")):
                self._listeners.emit(Leased(queue, tuple([lease.id for lease in same])))
        self._inbox.fill(leases)

    def _hand_back(self, leases: list[Lease]) -> None:
        """One of these, or one that another lane runs, is a suspect and must run alone."""
        for lease in leases:
            kept = Nack(lease=lease, charge="suspect", reason="suspect")
            self._settler.settle(kept if lease.suspect else Nack(lease=lease, reason=UNSTARTED))
        if leases[0].suspect:
            self._holdings.leave_alone(self)

    def _wait_for_room(self) -> None:
        self.room.wait(_ROOM)
        self.room.clear()
