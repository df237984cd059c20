"""The keeper: renews the leases in flight, reaps those of vanished workers, and hands back what waits too long."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from tenure.backends.contract import Backend, Lease
from tenure.clock import MICROSECOND
from tenure.errors import BackendError
from tenure.events import LeaseLost, Listeners, Reaped
from tenure.worker.holdings import Holdings
from tenure.worker.pipeline import Pipeline
from tenure.worker.terms import Terms

logger = logging.getLogger(__name__)

_TICK = 0.1
_STALE = 0.25  # an unstarted lease older than this goes back to its place: others may be idle
_CLOCK_JUMP = 1.0
_SLOW = 0.5  # with no answer for this long to whatever was asked, a renewal may not come in time
_SETTLING = 0.02  # from the moment a backend has settled a lease until it is held no longer


class Keeper:
    """Works by the tick; a failing backend costs a tick, not the keeper."""

    def __init__(
        self,
        backend: Backend,
        terms: Terms,
        holdings: Holdings,
        listeners: Listeners,
        pipeline: Pipeline,
        hand_back: Callable[[float], None],
        lose: Callable[[Sequence[Lease]], None],
    ) -> None:
        """`hand_back` returns what has waited this long unstarted, `lose` stops what runs on a lost lease."""
        self._backend = backend
        self._terms = terms
        self._holdings = holdings
        self._listeners = listeners
        self._clock = pipeline.clock
        self._warden = pipeline.warden
        self._hand_back = hand_back
        self._lose = lose
        self._stopping = threading.Event()
        self._asked: float | None = None
        self._reap_at = 0.0
        self._drift = self._wall_minus_monotonic()

    def run(self) -> None:
        threading.Thread(target=self._guard, name="tenure-guard", daemon=True).start()
        while not self._stopping.wait(_TICK):
            try:
                self.tick()
            except BackendError as error:
                logger.warning("keeping leases failed, trying again: %s", error)

    def stop(self) -> None:
        self._stopping.set()

    def tick(self) -> None:
        self._asked = now = self._clock.monotonic()
        try:
            self._tick(now)
        finally:
            self._asked = None

    def _tick(self, now: float) -> None:
        self._hand_back(_STALE)
        self._renew(now)
        self._warden.rouse(time.monotonic())  # real, as the waits it measures are
        if now >= self._reap_at and not self._clock_jumped(now):
            self._reap_at = now + self._terms.lease_seconds / 3
            self._reap()

    def _renew(self, now: float) -> None:
        leases = self._holdings.renewable(now)
        if not leases:
            return
        try:
            # Guards first: what could not be renewed is tried again, or let go with its lease.
            lost = self._warden.keep(leases)
            lost += self._backend.renew(leases, seconds=self._terms.lease_seconds)
        except BackendError:
            self._let_go(self._holdings.overdue(self._clock.monotonic()))
            raise
        self._holdings.renewed(leases, now, self._terms.lease_seconds)
        if lost:
            self._stopping.wait(_SETTLING)  # what looks lost may have been settled this very moment, by us
            self._let_go(lost)

    def _guard(self) -> None:
        """While a backend does not answer, let go of what it did not renew in time."""
        while not self._stopping.wait(_TICK):
            asked, now = self._asked, self._clock.monotonic()
            if asked is not None and now - asked > _SLOW:
                self._let_go(self._holdings.overdue(now))

    def _let_go(self, lost: Sequence[Lease]) -> None:
        """Stop what runs on leases that are no longer ours: somebody else may run it any moment."""
        dropped = self._holdings.drop(lost)
        if not dropped:
            return
        logger.warning("%d leases were lost while their jobs ran; those jobs run again elsewhere", len(dropped))
        self._lose(dropped)
        self._listeners.emit(LeaseLost(tuple(lease.id for lease in dropped), "renew"))

    def _reap(self) -> None:
        reaped = self._backend.reap(self._terms.queues)
        if reaped:
            logger.warning("%d leases of vanished workers expired; their jobs are ready again", len(reaped))
            crashed = tuple(each.id for each in reaped if each.crashed)
            self._listeners.emit(Reaped(tuple(each.id for each in reaped), crashed))

    def _clock_jumped(self, now: float) -> bool:
        """After a jump of the wall clock, live leases may look expired: wait one lease, so that all are renewed."""
        drift = self._wall_minus_monotonic()
        jumped = abs(drift - self._drift) > _CLOCK_JUMP
        self._drift = drift
        if jumped:
            logger.warning("the clock jumped; nothing is reaped for %g s", self._terms.lease_seconds)
            self._reap_at = now + self._terms.lease_seconds
        return jumped

    def _wall_minus_monotonic(self) -> float:
        return self._clock.now() / MICROSECOND - self._clock.monotonic()
