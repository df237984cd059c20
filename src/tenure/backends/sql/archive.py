"""SqlArchive: records of jobs that live on a broker, one row each; the record itself is JSON."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from tenure.backends.parts import forget_results
from tenure.backends.records import (
    ARCHIVED_ENDS,
    JobRecord,
    by_prefix,
    decode_record,
    encode,
    merge_records,
    read_place,
    sort_time,
)
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.backends.sql.job_lookup import end_of_prefix
from tenure.backends.sql.jobs import walk_queues

_CHUNK = 500
_LAST_MOMENT = 1 << 62
KNOWN = "SELECT id, record FROM tenure_record WHERE id IN :ids FOR UPDATE"
FIND = "SELECT record FROM tenure_record WHERE id = :id"
DROP = "DELETE FROM tenure_record WHERE id IN :ids"
DROP_TAGS = "DELETE FROM tenure_record_tag WHERE id IN :ids"
BY_ID = "SELECT id, record FROM tenure_record WHERE id IN :ids"
TAGGED = """
SELECT enqueued, id FROM tenure_record_tag
WHERE tag = (:tag) AND enqueued <= :first AND (enqueued < :first OR id < :second)
ORDER BY tag DESC, enqueued DESC, id DESC LIMIT :limit
"""
WITH_PREFIX = "SELECT record FROM tenure_record WHERE id >= :first AND id < :last ORDER BY id LIMIT :limit"
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
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,  # noqa: ARG002 - an archive has none
    ) -> tuple[list[JobRecord], str | None]:
        first, second = _cursor(cursor) if cursor else (before or _LAST_MOMENT, "")
        given = {"state": state, "queue": queue, "first": first, "second": second, "limit": limit}
        page = [decode_record(record) for (record,) in self._dialect.read(PAGE, given)]
        return page, encode((sort_time(page[-1]), page[-1].id)).decode() if len(page) == limit else None

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        first, second = read_place(cursor) if cursor else (_LAST_MOMENT, "")
        found = self._dialect.read(TAGGED, {"tag": tag, "first": first, "second": second, "limit": limit})
        after = encode(found[-1]).decode() if len(found) == limit else None
        ids = [id for _, id in found]
        records: dict[str, str] = dict(self._dialect.read(BY_ID, {"ids": ids})) if ids else {}
        return [decode_record(records[id]) for id in ids if id in records], after

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        given = {"first": prefix, "last": end_of_prefix(prefix), "limit": limit}
        return by_prefix([decode_record(record) for (record,) in self._dialect.read(WITH_PREFIX, given)], prefix, limit)

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old: list[str] = []
        for name in self.queues_with(state) if queue is None else [queue]:
            page = {"state": state, "queue": name, "before": before, "limit": limit - len(old)}
            old += [id for (id,) in self._dialect.read(OLD, page)]

        def delete(rows: Rows) -> None:
            rows(DROP, {"ids": old})
            rows(DROP_TAGS, {"ids": old})

        if old:
            self._dialect.transact(delete)
        return len(old)

    def forget(self, ids: Sequence[str]) -> list[str]:
        return forget_results(self, ids)

    def delete(self, ids: Sequence[str]) -> list[str]:
        def delete(rows: Rows) -> list[str]:
            found = [decode_record(record) for _, record in rows(KNOWN, {"ids": list(ids)})]
            ended = [record.id for record in found if record.state in ARCHIVED_ENDS]
            if ended:
                rows(DROP, {"ids": ended})
                rows(DROP_TAGS, {"ids": ended})
            return ended

        return self._dialect.transact(delete) if ids else []

    def _save(self, records: Sequence[JobRecord], rows: Rows) -> None:
        """Does not wait for the disk: a power cut may lose the last records, as the death of their worker does."""
        known = {id: decode_record(record) for id, record in rows(KNOWN, {"ids": [record.id for record in records]})}
        kept = merge_records(known, records).values()
        if kept:
            lines = [(each.id, each.queue, each.state, sort_time(each), encode(each).decode()) for each in kept]
            rows(self._dialect.save_records, {"rows": encode(lines).decode()})
            self._save_tags(known, list(kept), rows)

    def _save_tags(self, known: Mapping[str, JobRecord], kept: Sequence[JobRecord], rows: Rows) -> None:
        """Nearly always the first record of a job is the one that writes its tags."""
        changed = [each for each in kept if each.id not in known or _tags(known[each.id]) != _tags(each)]
        if renamed := [each.id for each in changed if each.id in known]:
            rows(DROP_TAGS, {"ids": renamed})
        if lines := [line for each in changed for line in _tags(each)]:
            rows(self._dialect.save_record_tags, {"rows": encode(lines).decode()})


def _tags(record: JobRecord) -> list[tuple[str, int, str]]:
    """The rows of the index of tags for this record."""
    return [(tag, record.enqueued_at, record.id) for tag in record.tags]
