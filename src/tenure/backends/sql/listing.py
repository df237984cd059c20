"""SqlListing: pages of jobs by state and queue, each from an index, so that a page costs what it shows."""

import msgspec

from tenure.backends.asking import JobRecord
from tenure.backends.sql.dialect import Dialect
from tenure.backends.sql.records import SqlRecords, ended

_LAST = 1 << 62


def _waiting(state: str, table: str, order: str, due: str, owner: str = "NULL") -> str:
    return f"""
SELECT j.id, w.queue, -w.rank, j.handler, j.name, '{state}', w.attempts, w.crashes, w.fence, j.enqueued, {due}, NULL,
       {owner}, NULL, NULL, NULL, NULL, NULL, w.{order}, w.key
FROM {table} AS w JOIN tenure_job AS j ON j.key = w.key
WHERE w.queue = :queue AND w.{order} >= :first AND (w.{order} > :first OR w.key > :second)
ORDER BY w.{order}, w.key LIMIT :limit
"""


LIVE = {
    "ready": _waiting("ready", "tenure_ready", "rank", "j.due"),
    "delayed": _waiting("delayed", "tenure_delayed", "due", "w.due"),
    "parked": _waiting("parked", "tenure_parked", "rank", "j.due"),
    "leased": _waiting("leased", "tenure_lease", "expires", "j.due", "w.owner"),
}
_BEFORE = "{0} <= :first AND ({0} < :first OR id < :second)"
ENDED = f"""
SELECT id, queue, -rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished, owner, seconds,
       reason, output, NULL, run, finished, id FROM tenure_history
WHERE state = (:state) AND queue = (:queue) AND {_BEFORE.format("finished")}
ORDER BY state DESC, queue DESC, finished DESC, id DESC LIMIT :limit
"""
DEAD = f"""
SELECT id, queue, -rank, handler, name, 'dead', attempts, crashes, fence, enqueued, due, died, nullif(owner, ''), NULL,
       reason, NULL, NULL, NULL, died, id FROM tenure_dead WHERE queue = (:queue) AND {_BEFORE.format("died")}
ORDER BY queue DESC, died DESC, id DESC LIMIT :limit
"""
_cursor = msgspec.json.Decoder(tuple[int, int | str]).decode


class SqlListing:
    """A cursor is the place of the last row that was shown."""

    def __init__(self, dialect: Dialect, records: SqlRecords) -> None:
        self._dialect = dialect
        self._records = records

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        start = (-_LAST, 0) if state in LIVE else (before or _LAST, "")
        first, second = _cursor(cursor) if cursor else start
        given = {"queue": queue, "first": first, "second": second, "limit": limit}
        if state in LIVE or state == "dead":
            rows = self._dialect.read(LIVE.get(state, DEAD), given)
        else:
            rows = self._dialect.read(ENDED, {**given, "state": state})
        failures = self._records.failures([row[0] for row in rows])
        after = msgspec.json.encode(rows[-1][-2:]).decode() if len(rows) == limit else None
        return [ended(row[:-2], failures[row[0]]) for row in rows], after
