"""MemoryChronicle: records of jobs in a dictionary."""

import threading
from collections.abc import Sequence

from tenure.backends.asking import JobRecord
from tenure.backends.chronicle import merged, moment


class MemoryChronicle:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, JobRecord] = {}

    def note(self, records: Sequence[JobRecord]) -> None:
        with self._lock:
            self._records.update(merged(self._records, records))

    def find(self, id: str) -> JobRecord | None:
        return self._records.get(id)

    def queues_with(self, state: str) -> list[str]:
        with self._lock:
            return sorted({record.queue for record in self._records.values() if record.state == state})

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        found = [each for each in reversed(self._of(state, queue)) if before is None or moment(each) < before]
        first = 0 if cursor is None else next((n for n, each in enumerate(found) if _place(each) < cursor), len(found))
        page = found[first : first + limit]
        return page, _place(page[-1]) if len(page) == limit else None

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old = [record.id for record in self._of(state, queue) if moment(record) < before][:limit]
        with self._lock:
            return sum(self._records.pop(id, None) is not None for id in old)

    def _of(self, state: str, queue: str | None) -> list[JobRecord]:
        """The oldest first."""
        with self._lock:
            found = [each for each in self._records.values() if each.state == state and queue in (None, each.queue)]
        return sorted(found, key=_place)


def _place(record: JobRecord) -> str:
    return f"{moment(record):020d} {record.id}"
