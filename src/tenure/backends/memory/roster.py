"""MemoryRoster: which workers of this process are alive."""

from tenure.backends.memory.table import Table
from tenure.backends.upkeep import WorkerRecord
from tenure.clock import MICROSECOND


class MemoryRoster:
    """A worker that does not greet again in time is gone."""

    def __init__(self, table: Table) -> None:
        self._clock = table.clock
        self._changed = table.changed
        self._workers: dict[str, tuple[int, WorkerRecord]] = {}

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        with self._changed:
            self._workers[worker.id] = (self._clock.now() + round(seconds * MICROSECOND), worker)

    def part(self, id: str) -> None:
        with self._changed:
            self._workers.pop(id, None)

    def workers(self) -> list[WorkerRecord]:
        with self._changed:
            now = self._clock.now()
            alive = [worker for expires, worker in self._workers.values() if expires > now]
            return sorted(alive, key=lambda worker: worker.started_at)
