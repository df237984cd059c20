"""The stats recorder: counts what a worker settles and writes the counts every few seconds, so that statistics need
no job history.

A worker that is killed loses the counts of its last few seconds; the jobs themselves are not affected.
"""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable

from tenure.backends.parts import StatsStore
from tenure.clock import Clock
from tenure.errors import BackendError
from tenure.events import Event, Settled, Settlement, Status
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, Tally, sum_counts
from tenure.worker.roles import OutageLog

logger = logging.getLogger(__name__)

FLUSH_INTERVAL = 5.0
_NOT_ENDED = (Status.REQUEUED.value, Status.POSTPONED.value)

CountsByJob = dict[tuple[str, str], Counts]  # by queue and handler


class StatsRecorder:
    """A listener to the events of one worker, and a role of that worker."""

    def __init__(self, stats: StatsStore, clock: Clock, worker: str, outage: OutageLog | None = None) -> None:
        self._stats = stats
        self._outage = outage or OutageLog()
        self._clock = clock
        self._worker = worker
        self._lock = threading.Lock()
        self._slots: dict[int, CountsByJob] = {}
        self._ended_before: Counter[str] = Counter()
        self._is_written = True
        self._stopping = threading.Event()

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Settled):
            return
        groups: defaultdict[tuple[str, str], list[Settlement]] = defaultdict(list)
        for each in event.settlements:
            groups[each.queue, "" if each.run is None else each.run.handler].append(each)
        now = self._clock.now()
        with self._lock:
            slot = self._slots.setdefault(now - now % SLOT_MICROSECONDS, {})
            for key, settlements in groups.items():
                slot.setdefault(key, Counts()).add(*settlements)
            self._is_written = False

    def ended(self) -> Counter[str]:
        """How many jobs of each queue have ended in this worker so far, in whichever state."""
        with self._lock:
            return self._ended_before + _ended(self._slots.values())

    def run(self) -> None:
        while not self._stopping.wait(FLUSH_INTERVAL):
            self._try_flush()
        self._try_flush()

    def stop(self) -> None:
        self._stopping.set()

    def flush(self) -> None:
        """Write the counts; slots that are over are then dropped here."""
        with self._lock:
            if self._is_written:
                return
            current = self._clock.now() // SLOT_MICROSECONDS * SLOT_MICROSECONDS
            tallies = [
                Tally(slot, queue, handler, self._worker, sum_counts([counts]))
                for slot, by_job in self._slots.items()
                for (queue, handler), counts in by_job.items()
            ]
            self._is_written = True
        try:
            self._stats.save(tallies)
        except BackendError:
            self._is_written = False
            raise
        with self._lock:
            self._ended_before += _ended(by_job for slot, by_job in self._slots.items() if slot < current)
            self._slots = {slot: by_job for slot, by_job in self._slots.items() if slot >= current}

    def _try_flush(self) -> None:
        try:
            self.flush()
        except BackendError as error:
            self._outage.failed(logger, "writing statistics", error)


def _ended(slots: Iterable[CountsByJob]) -> Counter[str]:
    found: Counter[str] = Counter()
    for by_job in slots:
        for (queue, _), counts in by_job.items():
            found[queue] += sum(count for status, count in counts.statuses.items() if status not in _NOT_ENDED)
    return found
