"""The bookkeeper: counts what a worker settles, and notes it every few seconds, so that statistics cost no history.

A worker that is killed takes the counts of its last few seconds with it; the jobs themselves are not concerned.
"""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable

from tenure.backends.upkeep import Statistical
from tenure.clock import Clock
from tenure.errors import BackendError
from tenure.events import Event, Settled, Settlement, Status
from tenure.metrics.tally import SLOT, Counts, Tally, summed

logger = logging.getLogger(__name__)

EVERY = 5.0
_GOES_ON = (Status.REQUEUED.value, Status.POSTPONED.value)

Pages = dict[tuple[str, str], Counts]


class Bookkeeper:
    """A listener to one worker, and a role beside it."""

    def __init__(self, books: Statistical, clock: Clock, worker: str) -> None:
        self._books = books
        self._clock = clock
        self._worker = worker
        self._lock = threading.Lock()
        self._slots: dict[int, Pages] = {}
        self._before: Counter[str] = Counter()
        self._is_noted = True
        self._stopping = threading.Event()

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Settled):
            return
        alike: defaultdict[tuple[str, str], list[Settlement]] = defaultdict(list)
        for each in event.settlements:
            alike[each.queue, "" if each.run is None else each.run.handler].append(each)
        now = self._clock.now()
        with self._lock:
            pages = self._slots.setdefault(now - now % SLOT, {})
            for key, settlements in alike.items():
                pages.setdefault(key, Counts()).add(*settlements)
            self._is_noted = False

    def ended(self) -> Counter[str]:
        """How many jobs of each queue have ended here so far, however they did."""
        with self._lock:
            return self._before + _ended(self._slots.values())

    def run(self) -> None:
        while not self._stopping.wait(EVERY):
            self._try()
        self._try()

    def stop(self) -> None:
        self._stopping.set()

    def note(self) -> None:
        """Write down what was counted; a slot that is over is then forgotten here."""
        with self._lock:
            if self._is_noted:
                return
            current = self._clock.now() // SLOT * SLOT
            tallies = [
                Tally(slot, queue, handler, self._worker, summed([counts]))
                for slot, pages in self._slots.items()
                for (queue, handler), counts in pages.items()
            ]
            self._is_noted = True
        try:
            self._books.note_tallies(tallies)
        except BackendError:
            self._is_noted = False
            raise
        with self._lock:
            self._before += _ended(pages for slot, pages in self._slots.items() if slot < current)
            self._slots = {slot: pages for slot, pages in self._slots.items() if slot >= current}

    def _try(self) -> None:
        try:
            self.note()
        except BackendError as error:
            logger.warning("statistics could not be noted, trying again: %s", error)


def _ended(pages: Iterable[Pages]) -> Counter[str]:
    found: Counter[str] = Counter()
    for page in pages:
        for (queue, _), counts in page.items():
            found[queue] += sum(count for status, count in counts.statuses.items() if status not in _GOES_ON)
    return found
