"""The workers of this process that are alive, and what they count."""

import threading
from collections.abc import Sequence

from tenure.backends.memory.table import JobTable
from tenure.backends.records import WorkerRecord
from tenure.clock import MICROSECOND
from tenure.metrics.statistics import Tally, merge_workers

_Key = tuple[int, str, str, str]  # slot, queue, handler and worker


class MemoryWorkers:
    """A worker that does not announce itself again in time is gone."""

    def __init__(self, table: JobTable) -> None:
        self._clock = table.clock
        self._changed = table.changed
        self._workers: dict[str, tuple[int, WorkerRecord]] = {}

    def announce(self, worker: WorkerRecord, seconds: float) -> None:
        with self._changed:
            self._workers[worker.id] = (self._clock.now() + round(seconds * MICROSECOND), worker)

    def remove(self, id: str) -> None:
        with self._changed:
            self._workers.pop(id, None)

    def drop_dead(self, limit: int) -> int:
        with self._changed:
            now = self._clock.now()
            dead = [id for id, (expires, _) in self._workers.items() if expires <= now][:limit]
            for id in dead:
                del self._workers[id]
            return len(dead)

    def alive(self) -> list[WorkerRecord]:
        with self._changed:
            now = self._clock.now()
            found = [worker for expires, worker in self._workers.values() if expires > now]
            return sorted(found, key=lambda worker: worker.started_at)


class MemoryStats:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[_Key, Tally] = {}

    def save(self, tallies: Sequence[Tally]) -> None:
        with self._lock:
            self._tallies.update((_key(tally), tally) for tally in tallies)

    def read(self, since: int, until: int) -> list[Tally]:
        with self._lock:
            return [self._tallies[key] for key in sorted(self._tallies) if since <= key[0] < until]

    def fold(self, before: int, limit: int) -> int:
        with self._lock:
            unfolded = [tally for tally in self._tallies.values() if tally.worker and tally.slot < before][:limit]
            for tally in unfolded:
                del self._tallies[_key(tally)]
            for whole in merge_workers(unfolded):
                known = self._tallies.get(_key(whole))
                (self._tallies[_key(whole)],) = merge_workers([whole, known] if known else [whole])
            return len(unfolded)

    def drop(self, before: int, limit: int) -> int:
        with self._lock:
            old = [key for key in sorted(self._tallies) if key[0] < before][:limit]
            for key in old:
                del self._tallies[key]
            return len(old)


def _key(tally: Tally) -> _Key:
    return tally.slot, tally.queue, tally.handler, tally.worker
