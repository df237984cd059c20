"""MemoryAuditLog: what users did, for as long as this process lives."""

import threading

from tenure.backends.records import AuditRecord


class MemoryAuditLog:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, AuditRecord] = {}

    def save(self, record: AuditRecord) -> None:
        with self._lock:
            self._records[record.id] = record

    def find(self, id: str) -> AuditRecord | None:
        with self._lock:
            return self._records.get(id)

    def page(self, *, limit: int, before: str | None = None) -> list[AuditRecord]:
        with self._lock:
            older = [id for id in self._records if before is None or id < before]
            return [self._records[id] for id in sorted(older, reverse=True)[:limit]]

    def trim(self, before: int, limit: int) -> int:
        with self._lock:
            old = sorted((record.at, id) for id, record in self._records.items() if record.at < before)[:limit]
            for _, id in old:
                del self._records[id]
            return len(old)
