"""SqlArchive: records of jobs that live on a broker, one row each; the record itself is JSON."""

from collections.abc import Sequence
from functools import partial

import msgspec

from tenure.backends.parts import forget_results
from tenure.backends.records import JobRecord, decode_record, encode, merge_records, sort_time
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.backends.sql.jobs import walk_queues

_CHUNK = 500
_LAST_MOMENT = 1 << 62
KNOWN = "SELECT id, record FROM tenure_record WHERE id IN :ids FOR UPDATE"
FIND = "SELECT record FROM tenure_record WHERE id = :id"
DROP = "DELETE FROM tenure_record WHERE id IN :ids"
NEXT_QUEUE = "SELECT min(queue) FROM tenure_record WHERE state = :state AND queue > :after"
PAGE = """
SELECT record FROM tenure_record WHERE state = :state AND queue = :queue
AND moment <= :first AND (moment < :first OR id < :second) ORDER BY moment DESC, id DESC LIMIT :limit
"""
OLD = """
SELECT id FROM tenure_record WHERE state = :state AND queue = :queue AND moment < :before ORDER BY moment LIMIT :limit
"""
_cursor = msgspec.json.Decoder(tuple[int, str]).decode


class SqlArchive:
    """Rows are locked before they are replaced; of two workers that save the same new job, the later one wins."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def save(self, records: Sequence[JobRecord]) -> None:
        ordered = sorted(
            records, key=lambda record: record.id
        )  # every worker locks rows in one order, so none deadlocks
        for first in range(0, len(ordered), _CHUNK):
            chunk = ordered[first : first + _CHUNK]
            self._dialect.transact_volatile(partial(self._save, chunk))

    def find(self, id: str) -> JobRecord | None:
        return next((decode_record(record) for (record,) in self._dialect.read(FIND, {"id": id})), None)

    def queues_with(self, state: str) -> list[str]:
        return walk_queues(self._dialect, NEXT_QUEUE, state=state)

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        first, second = _cursor(cursor) if cursor else (before or _LAST_MOMENT, "")
        given = {"state": state, "queue": queue, "first": first, "second": second, "limit": limit}
        page = [decode_record(record) for (record,) in self._dialect.read(PAGE, given)]
        return page, encode((sort_time(page[-1]), page[-1].id)).decode() if len(page) == limit else None

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old: list[str] = []
        for name in self.queues_with(state) if queue is None else [queue]:
            page = {"state": state, "queue": name, "before": before, "limit": limit - len(old)}
            old += [id for (id,) in self._dialect.read(OLD, page)]
        if old:
            self._dialect.transact(lambda rows: rows(DROP, {"ids": old}))
        return len(old)

    def forget(self, ids: Sequence[str]) -> list[str]:
        return forget_results(self, ids)

    def _save(self, records: Sequence[JobRecord], rows: Rows) -> None:
        """Does not wait for the disk: a power cut may lose the last records, as the death of their worker does."""
        known = {id: decode_record(record) for id, record in rows(KNOWN, {"ids": [record.id for record in records]})}
        kept = merge_records(known, records).values()
        if kept:
            lines = [(each.id, each.queue, each.state, sort_time(each), encode(each).decode()) for each in kept]
            rows(self._dialect.save_records, {"rows": encode(lines).decode()})
