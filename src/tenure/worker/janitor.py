"""The janitor: deletes what has ended and is past its time, a small chunk at a time, so that nobody waits for it.

Every five minutes one janitor of the fleet cleans: the one that enters the tick into the ledger first.
"""

import logging
import random
import threading
import time

from tenure.backends.chronicle import Chronicle
from tenure.backends.contract import Backend
from tenure.backends.ledger import Ledger, Note, TickRecord
from tenure.backends.upkeep import Maintained, Statistical
from tenure.clock import MICROSECOND, Clock, to_datetime
from tenure.errors import BackendError
from tenure.guards.store import Store
from tenure.metrics.tally import SLOT

logger = logging.getLogger(__name__)

CLEAN = "tenure:clean"
EVERY = 300 * MICROSECOND
TICK_SECONDS = 30 * 86_400.0  # that ended ticks are kept
TICKS_KEPT = 1000  # of each schedule
_ALONE = 60.0
_BETWEEN_CHUNKS = 0.1
_CHUNK = 500
_SPREAD = 2.0
STATISTICS = "statistics"


class Janitor:
    """Runs beside the roles of a worker; several at once do no harm."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        retention: dict[str, float],
        store: Store | None = None,
        ledger: Ledger | None = None,
        chronicle: Chronicle | None = None,
    ) -> None:
        """`retention` is seconds per state, and of statistics; 0 keeps for ever. Without a ledger, each for itself.

        What a backend does not keep may be in a store or a chronicle beside it, and is trimmed there.
        """
        self._backend = backend
        self._clock = clock
        self._retention = {state: seconds for state, seconds in retention.items() if seconds}
        self._statistics = round(self._retention.pop(STATISTICS, 0) * MICROSECOND)
        self._store = store
        self._ledger = ledger
        self._chronicle = chronicle
        self._books = _books(backend) or _books(store)
        self._stopping = threading.Event()

    def run(self) -> None:
        pause = 1.0
        while not self._stopping.wait(pause):
            try:
                pause = self.turn()
            except BackendError as error:
                logger.warning("trimming history failed, trying again: %s", error)
                pause = _ALONE

    def stop(self) -> None:
        self._stopping.set()

    def turn(self) -> float:
        """Clean, unless another janitor does; returns the seconds until the next turn."""
        if self._ledger is None:
            self.clean()
            return _ALONE
        now = self._ledger.time()
        tick = now - now % EVERY
        id = f"{CLEAN}@{to_datetime(tick):%Y-%m-%dT%H:%MZ}"
        if self._ledger.enter([TickRecord(id=id, schedule=CLEAN, tick=tick, due=tick, state="running")]):
            self._give_up_others(self._ledger, tick)
            count = self.clean()
            self._ledger.note([Note(id, "succeeded", f"{count} deleted")])
        return (tick + EVERY - now) / MICROSECOND + random.uniform(0, _SPREAD)  # noqa: S311 - only spreads the fleet

    def clean(self) -> int:
        """Delete everything past its time; returns how much that was."""
        total = 0
        while not self._stopping.is_set():
            deleted = self.sweep()
            total += sum(deleted)
            if max(deleted, default=0) < _CHUNK:
                break
            time.sleep(_BETWEEN_CHUNKS)
        return total

    def sweep(self) -> list[int]:
        """One chunk of each kind; how many were deleted of each."""
        now = self._clock.now()
        deleted = [] if self._store is None else [self._store.sweep(_CHUNK)]
        places = [self._backend, self._chronicle]
        deleted += [
            place.trim(state, now - round(seconds * MICROSECOND), _CHUNK)
            for place in places
            if isinstance(place, Maintained)
            for state, seconds in self._retention.items()
        ]
        if self._chronicle and "dead" in self._retention:  # jobs that were to run again, and never did
            until = now - round(self._retention["dead"] * MICROSECOND)
            deleted += [self._chronicle.trim(state, until, _CHUNK) for state in ("ready", "delayed")]
        if self._ledger is not None:
            deleted.append(self._ledger.forget(now - round(TICK_SECONDS * MICROSECOND), TICKS_KEPT, _CHUNK))
        if self._books is not None:
            deleted.append(self._books.fold_tallies(now - 2 * SLOT, _CHUNK))
            deleted.append(self._books.drop_tallies(now - self._statistics, _CHUNK) if self._statistics else 0)
        return deleted

    def _give_up_others(self, ledger: Ledger, tick: int) -> None:
        """A janitor that has not ended within five minutes has vanished, or is too slow to be waited for."""
        late = [each for each in ledger.history(CLEAN, states=["running"]) if each.tick < tick]
        ledger.note([Note(each.id, "failed", "the worker that cleaned has vanished") for each in late])


def _books(place: object) -> Statistical | None:
    return place if isinstance(place, Statistical) else None
