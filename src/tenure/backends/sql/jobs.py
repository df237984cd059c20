"""SqlJobs and SqlQueueCounts: single jobs, pages of jobs, counts and ages; nothing here is on the hot path.

Statements use a neutral notation that every dialect translates: `:name` is a parameter, `IN :ids` a list of them,
`FOR UPDATE` locks rows where the database has many writers, a final `ON CONFLICT DO NOTHING` leaves out rows that
exist, and `= (:name)` marks that an index is entered in its middle, which MySQL needs to know.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tenure.backends.records import JobRecord
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.events import JOB_STATES, Run

COUNTS_LIVE = """
SELECT queue, 'ready', count(*) FROM tenure_ready GROUP BY queue
UNION ALL SELECT queue, 'delayed', count(*) FROM tenure_delayed GROUP BY queue
UNION ALL SELECT queue, 'parked', count(*) FROM tenure_parked GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*) FROM tenure_lease GROUP BY queue
UNION ALL SELECT queue, 'dead', count(*) FROM tenure_dead GROUP BY queue
"""
COUNTS = f"{COUNTS_LIVE} UNION ALL SELECT queue, state, count(*) FROM tenure_history GROUP BY state, queue"
FIND_LIVE = """
SELECT j.id, j.queue, -j.rank, j.handler, j.name, j.enqueued, j.due, j.body,
       r.key, r.attempts, r.crashes, r.fence,
       d.key, d.attempts, d.crashes, d.fence, d.due,
       l.key, l.attempts, l.crashes, l.fence, l.owner, l.expires, l.asked, l.done, l.total,
       p.key, p.attempts, p.crashes, p.fence, p.guard
FROM tenure_job AS j
LEFT JOIN tenure_ready AS r ON r.queue = j.queue AND r.rank = j.rank AND r.key = j.key
LEFT JOIN tenure_delayed AS d ON d.key = j.key
LEFT JOIN tenure_lease AS l ON l.key = j.key
LEFT JOIN tenure_parked AS p ON p.key = j.key
WHERE j.id = :id
"""
FIND_ENDED = """
SELECT id, queue, -rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished, owner, seconds,
       reason, output, NULL, run FROM tenure_history WHERE id = :id
"""
DEAD_COLUMNS = """
SELECT id, queue, -rank, handler, name, 'dead', attempts, crashes, fence, enqueued, due, died, nullif(owner, ''), NULL,
       reason, NULL, body, NULL FROM tenure_dead
"""
FIND_DEAD = f"{DEAD_COLUMNS} WHERE id = :id"
FAILURES = "SELECT id, record FROM tenure_failure WHERE id IN :ids ORDER BY id, fence"
DROP_FAILURES = "DELETE FROM tenure_failure WHERE id IN :ids"
DROP_HISTORY = "DELETE FROM tenure_history WHERE id IN :ids"
# One index lookup for each queue: DISTINCT would read every row.
NEXT_QUEUE = "SELECT min(queue) FROM tenure_{table} WHERE {of_state}queue > :after"
OLD_HISTORY = """
SELECT id FROM tenure_history WHERE state = :state AND queue = :queue AND finished < :before
ORDER BY finished LIMIT :limit
"""
_LAST_MOMENT = 1 << 62


def _page_of(state: str, table: str, order: str, due: str, owner: str = "NULL") -> str:
    return f"""
SELECT j.id, w.queue, -w.rank, j.handler, j.name, '{state}', w.attempts, w.crashes, w.fence, j.enqueued, {due}, NULL,
       {owner}, NULL, NULL, NULL, NULL, NULL, w.{order}, w.key
FROM {table} AS w JOIN tenure_job AS j ON j.key = w.key
WHERE w.queue = :queue AND w.{order} >= :first AND (w.{order} > :first OR w.key > :second)
ORDER BY w.{order}, w.key LIMIT :limit
"""


PAGE_LIVE = {
    "ready": _page_of("ready", "tenure_ready", "rank", "j.due"),
    "delayed": _page_of("delayed", "tenure_delayed", "due", "w.due"),
    "parked": _page_of("parked", "tenure_parked", "rank", "j.due"),
    "leased": _page_of("leased", "tenure_lease", "expires", "j.due", "w.owner"),
}
_BEFORE = "{0} <= :first AND ({0} < :first OR id < :second)"
PAGE_ENDED = f"""
SELECT id, queue, -rank, handler, name, state, attempts, crashes, fence, enqueued, due, finished, owner, seconds,
       reason, output, NULL, run, finished, id FROM tenure_history
WHERE state = (:state) AND queue = (:queue) AND {_BEFORE.format("finished")}
ORDER BY state DESC, queue DESC, finished DESC, id DESC LIMIT :limit
"""
PAGE_DEAD = f"""
SELECT id, queue, -rank, handler, name, 'dead', attempts, crashes, fence, enqueued, due, died, nullif(owner, ''), NULL,
       reason, NULL, NULL, NULL, died, id FROM tenure_dead WHERE queue = (:queue) AND {_BEFORE.format("died")}
ORDER BY queue DESC, died DESC, id DESC LIMIT :limit
"""
_HEAD_ROWS = 5  # the first jobs of a priority may have come back, and then their waiting time is unknown


def _first_rows(rank: int) -> str:
    return f"""
SELECT * FROM (
    SELECT j.due, r.fence FROM tenure_ready AS r JOIN tenure_job AS j ON j.key = r.key
    WHERE r.queue = :queue AND r.rank = {rank} ORDER BY r.key LIMIT {_HEAD_ROWS}
) AS priority_{-rank}"""


OLDEST_READY = " UNION ALL ".join(_first_rows(-priority) for priority in range(10))
OLDEST_OVERDUE = "SELECT min(due) FROM tenure_delayed WHERE queue = :queue AND due <= :now"
_TABLES = {"ready": "ready", "delayed": "delayed", "parked": "parked", "leased": "lease", "dead": "dead"}
_ENDED_COLUMNS = (
    *("id", "queue", "priority", "handler", "name", "state", "attempts", "crashes", "fence"),
    *("enqueued_at", "due_at", "finished_at", "owner", "seconds", "reason", "output", "body", "run"),
)
_decode_cursor = msgspec.json.Decoder(tuple[int, int | str]).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_run = msgspec.json.Decoder(Run).decode


class SqlJobs:
    """Reads the tables that the backend writes; the cursor of a page is the place of the last row it shows."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def find(self, id: str) -> JobRecord | None:
        for row in self._dialect.read(FIND_LIVE, {"id": id}):
            return _live_record(row, self._failures([id])[id])
        for statement in (FIND_DEAD, FIND_ENDED):
            for row in self._dialect.read(statement, {"id": id}):
                return ended_record(row, self._failures([id])[id])
        return None

    def queues_with(self, state: str) -> list[str]:
        table = _TABLES.get(state)
        statement = NEXT_QUEUE.format(table=table or "history", of_state="" if table else "state = :state AND ")
        return walk_queues(self._dialect, statement, **({} if table else {"state": state}))

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        start = (-_LAST_MOMENT, 0) if state in PAGE_LIVE else (before or _LAST_MOMENT, "")
        first, second = _decode_cursor(cursor) if cursor else start
        given = {"queue": queue, "first": first, "second": second, "limit": limit}
        if state in PAGE_LIVE or state == "dead":
            rows = self._dialect.read(PAGE_LIVE.get(state, PAGE_DEAD), given)
        else:
            rows = self._dialect.read(PAGE_ENDED, {**given, "state": state})
        failures = self._failures([row[0] for row in rows])
        after = msgspec.json.encode(rows[-1][-2:]).decode() if len(rows) == limit else None
        return [ended_record(row[:-2], failures[row[0]]) for row in rows], after

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old: list[tuple[Any, ...]] = []
        for name in self.queues_with(state) if queue is None else [queue]:
            page = {"state": state, "queue": name, "before": before, "limit": limit - len(old)}
            old += self._dialect.read(OLD_HISTORY, page)

        def delete(rows: Rows) -> None:
            ids = {"ids": [id for (id,) in old]}
            rows(DROP_HISTORY, ids)
            rows(DROP_FAILURES, ids)

        if old:
            self._dialect.transact(delete)
        return len(old)

    def _failures(self, ids: list[str]) -> dict[str, tuple[Failure, ...]]:
        return read_failures(self._dialect, ids)


class SqlQueueCounts:
    """Counts by state, and the age of the oldest waiting job from the first few rows of each priority."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for queue, state, count in self._dialect.read(COUNTS if ended else COUNTS_LIVE, {}):
            found.setdefault(queue, dict.fromkeys(JOB_STATES, 0))[state] += count
        return found

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        now = self._dialect.now()
        found: dict[str, float] = {}
        for queue in queues:
            rows = self._dialect.read(OLDEST_READY, {"queue": queue})
            dues = [due for due, fence in rows if not fence] or [due for due, _ in rows]
            dues += [
                due for (due,) in self._dialect.read(OLDEST_OVERDUE, {"queue": queue, "now": now}) if due is not None
            ]
            if dues:
                found[queue] = max(0, now - min(dues)) / MICROSECOND
        return found


def walk_queues(dialect: Dialect, statement: str, **given: str) -> list[str]:
    """The queues, each found through the index as the first one after the last; no row is read twice."""
    found: list[str] = []
    while True:
        ((queue,),) = dialect.read(statement, {**given, "after": found[-1] if found else ""})
        if queue is None:
            return found
        found.append(queue)


def read_failures(dialect: Dialect, ids: list[str]) -> dict[str, tuple[Failure, ...]]:
    found: dict[str, tuple[Failure, ...]] = dict.fromkeys(ids, ())
    for id, record in dialect.read(FAILURES, {"ids": ids}) if ids else ():
        with suppress(msgspec.MsgspecError, ValueError, TypeError, KeyError):  # one that cannot be read is left out
            found[id] += (_decode_failure(record),)
    return found


def ended_record(row: tuple[Any, ...], failures: tuple[Failure, ...]) -> JobRecord:
    values: dict[str, Any] = dict(zip(_ENDED_COLUMNS, row, strict=True))
    run, values["run"] = values["run"], None
    if run is not None:
        with suppress(msgspec.MsgspecError, ValueError, TypeError):
            values["run"] = _decode_run(run)
    return JobRecord(**values, failures=failures)


def _live_record(row: tuple[Any, ...], failures: tuple[Failure, ...]) -> JobRecord:
    id, queue, priority, handler, name, enqueued, due, body = row[:8]
    ready, delayed, leased, parked = row[8:12], row[12:17], row[17:26], row[26:]
    state, counters = ("ready", ready[1:])
    if delayed[0] is not None:
        state, counters, due = "delayed", delayed[1:4], delayed[4]
    elif leased[0] is not None:
        state, counters = "leased", leased[1:4]
    elif parked[0] is not None:
        state, counters = "parked", parked[1:4]
    attempts, crashes, fence = counters
    owner, expires, asked, done, total = leased[4:]
    return JobRecord(
        id=id,
        queue=queue,
        handler=handler,
        name=name,
        state=state,
        priority=priority,
        attempts=attempts,
        crashes=crashes,
        fence=fence,
        enqueued_at=enqueued,
        due_at=due,
        owner=owner,
        lease_until=expires,
        failures=failures,
        body=body,
        progress=None if done is None else Progress(done, total),
        cancel_asked=bool(asked),
        waits_for=parked[4],
    )
