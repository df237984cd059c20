"""MemoryArchive: records of jobs that live on a broker, for as long as this process lives."""

import threading
from collections.abc import Sequence

from tenure.backends.parts import forget_results
from tenure.backends.records import ARCHIVED_ENDS, JobRecord, by_prefix, merge_records, sort_time, tagged_page


class MemoryArchive:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, JobRecord] = {}

    def save(self, records: Sequence[JobRecord]) -> None:
        with self._lock:
            self._records.update(merge_records(self._records, records))

    def find(self, id: str) -> JobRecord | None:
        return self._records.get(id)

    def queues_with(self, state: str) -> list[str]:
        with self._lock:
            return sorted({record.queue for record in self._records.values() if record.state == state})

    def page(
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,  # noqa: ARG002 - an archive has none
    ) -> tuple[list[JobRecord], str | None]:
        found = [each for each in reversed(self._of(state, queue)) if before is None or sort_time(each) < before]
        first = (
            0 if cursor is None else next((n for n, each in enumerate(found) if _sort_key(each) < cursor), len(found))
        )
        page = found[first : first + limit]
        return page, _sort_key(page[-1]) if len(page) == limit else None

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        with self._lock:
            found = [record for record in self._records.values() if tag in record.tags]
        return tagged_page(found, limit, cursor)

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        with self._lock:
            found = [record for record in self._records.values() if record.id.startswith(prefix)]
        return by_prefix(found, prefix, limit)

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old = [record.id for record in self._of(state, queue) if sort_time(record) < before][:limit]
        with self._lock:
            return sum(self._records.pop(id, None) is not None for id in old)

    def forget(self, ids: Sequence[str]) -> list[str]:
        return forget_results(self, ids)

    def delete(self, ids: Sequence[str]) -> list[str]:
        with self._lock:
            known = [self._records[id] for id in dict.fromkeys(ids) if id in self._records]
            ended = [record.id for record in known if record.state in ARCHIVED_ENDS]
            for id in ended:
                del self._records[id]
            return ended

    def _of(self, state: str, queue: str | None) -> list[JobRecord]:
        """The records of a state and queue, oldest first."""
        with self._lock:
            found = [each for each in self._records.values() if each.state == state and queue in (None, each.queue)]
        return sorted(found, key=_sort_key)


def _sort_key(record: JobRecord) -> str:
    return f"{sort_time(record):020d} {record.id}"
