"""SqlChronicle: records of jobs that live on a broker, a row each; the record itself is JSON."""

from collections.abc import Sequence
from functools import partial

import msgspec

from tenure.backends.asking import JobRecord
from tenure.backends.chronicle import merged, moment, read, write
from tenure.backends.sql.dialect import Dialect, Rows

_CHUNK = 500
_LAST = 1 << 62
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


class SqlChronicle:
    """Whatever is replaced is locked first; of two who note the same new job at once, the later one stays."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def note(self, records: Sequence[JobRecord]) -> None:
        ordered = sorted(records, key=lambda record: record.id)  # all take rows in one order, and so wait in no circle
        for first in range(0, len(ordered), _CHUNK):
            chunk = ordered[first : first + _CHUNK]
            self._dialect.hold(partial(self._note, chunk))

    def find(self, id: str) -> JobRecord | None:
        return next((read(record) for (record,) in self._dialect.read(FIND, {"id": id})), None)

    def queues_with(self, state: str) -> list[str]:
        found: list[str] = []
        while True:
            ((queue,),) = self._dialect.read(NEXT_QUEUE, {"state": state, "after": found[-1] if found else ""})
            if queue is None:
                return found
            found.append(queue)

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        first, second = _cursor(cursor) if cursor else (before or _LAST, "")
        given = {"state": state, "queue": queue, "first": first, "second": second, "limit": limit}
        page = [read(record) for (record,) in self._dialect.read(PAGE, given)]
        return page, write((moment(page[-1]), page[-1].id)).decode() if len(page) == limit else None

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old: list[str] = []
        for name in self.queues_with(state) if queue is None else [queue]:
            page = {"state": state, "queue": name, "before": before, "limit": limit - len(old)}
            old += [id for (id,) in self._dialect.read(OLD, page)]
        if old:
            self._dialect.transact(lambda rows: rows(DROP, {"ids": old}))
        return len(old)

    def _note(self, records: Sequence[JobRecord], rows: Rows) -> None:
        """A power cut may cost the last records, as the death of their worker does: the disk is not waited for."""
        known = {id: read(record) for id, record in rows(KNOWN, {"ids": [record.id for record in records]})}
        kept = merged(known, records).values()
        if kept:
            lines = [(each.id, each.queue, each.state, moment(each), write(each).decode()) for each in kept]
            rows(self._dialect.keep_records, {"rows": write(lines).decode()})
