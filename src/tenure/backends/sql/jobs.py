"""SqlJobs and SqlQueueCounts: single jobs, pages of jobs, counts and ages; nothing here is on the hot path.

Statements use a neutral notation that every dialect translates: `:name` is a parameter, `IN :ids` a list of them,
`FOR UPDATE` locks rows where the database has many writers, a final `ON CONFLICT DO NOTHING` leaves out rows that
exist, and `= (:name)` marks that an index is entered in its middle, which MySQL needs to know.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.records import JobRecord
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.backends.sql.job_lookup import JobLookup
from tenure.backends.sql.job_rows import (
    BODY_COLUMN,
    JOBS_AND_BODIES_BY_KEY,
    JOBS_BY_KEY,
    job_record,
    may_have_failures,
    read_failures,
    with_jobs,
)
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress
from tenure.events import JOB_STATES

COUNTS_LIVE = """
SELECT queue, 'ready', count(*) FROM tenure_ready GROUP BY queue
UNION ALL SELECT queue, 'delayed', count(*) FROM tenure_delayed GROUP BY queue
UNION ALL SELECT queue, 'parked', count(*) FROM tenure_parked GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*) FROM tenure_lease GROUP BY queue
UNION ALL SELECT queue, 'leased', count(*) FROM tenure_member GROUP BY queue
UNION ALL SELECT queue, 'dead', count(*) FROM tenure_dead GROUP BY queue
"""
COUNTS = f"{COUNTS_LIVE} UNION ALL SELECT queue, state, count(*) FROM tenure_outcome GROUP BY state, queue"
_ENDED_SINCE = "SELECT count(*) FROM (SELECT key FROM {ends} >= :since LIMIT :limit) AS ended"
ENDED_SINCE = _ENDED_SINCE.format(ends="tenure_outcome WHERE state = :state AND queue = :queue AND finished")
DIED_SINCE = _ENDED_SINCE.format(ends="tenure_dead WHERE queue = :queue AND died")
# One statement reads all places where the job can be: a job that moves meanwhile is seen in one of them.
# The subqueries give PostgreSQL a value to enter each index with: it may not use nested loops, and would else read all
# rows of a table up to that of the job.
FIND = """
SELECT j.id, j.queue, -j.rank, j.handler, j.name,
       CASE WHEN r.key IS NOT NULL THEN 'ready' WHEN d.key IS NOT NULL THEN 'delayed'
            WHEN l.key IS NOT NULL THEN 'leased' WHEN p.key IS NOT NULL THEN 'parked'
            WHEN x.key IS NOT NULL THEN 'dead' ELSE o.state END,
       coalesce(r.attempts, d.attempts, l.attempts, p.attempts, x.attempts, o.attempts),
       coalesce(r.crashes, d.crashes, l.crashes, p.crashes, x.crashes, o.crashes),
       coalesce(r.fence, d.fence, l.fence, p.fence, x.fence, o.fence),
       j.enqueued, coalesce(d.due, j.due), coalesce(x.died, o.finished),
       coalesce(l.owner, nullif(x.owner, ''), o.owner), o.seconds, coalesce(x.reason, o.reason), o.output, j.body,
       o.run, j.tags, p.guard, l.expires, l.asked, l.done, l.total
FROM tenure_job AS j
LEFT JOIN tenure_ready AS r ON r.key = j.key AND r.queue = (SELECT queue FROM tenure_job WHERE id = :id)
    AND r.rank = (SELECT rank FROM tenure_job WHERE id = :id) AND r.key = (SELECT key FROM tenure_job WHERE id = :id)
LEFT JOIN tenure_delayed AS d ON d.key = j.key AND d.key = (SELECT key FROM tenure_job WHERE id = :id)
LEFT JOIN tenure_lease AS l ON l.key = j.key AND l.key = (SELECT key FROM tenure_job WHERE id = :id)
LEFT JOIN tenure_parked AS p ON p.key = j.key AND p.key = (SELECT key FROM tenure_job WHERE id = :id)
LEFT JOIN tenure_dead AS x ON x.key = j.key AND x.key = (SELECT key FROM tenure_job WHERE id = :id)
LEFT JOIN tenure_outcome AS o ON o.key = j.key AND o.key = (SELECT key FROM tenure_job WHERE id = :id)
WHERE j.key = (SELECT key FROM tenure_job WHERE id = :id)
"""
DROP_FAILURES = "DELETE FROM tenure_failure WHERE id IN :ids"
DROP_JOBS = "DELETE FROM tenure_job WHERE key IN :keys"
DROP_OUTCOMES = "DELETE FROM tenure_outcome WHERE key IN :keys"
# One index lookup for each queue: DISTINCT would read every row.
NEXT_QUEUE = "SELECT min(queue) FROM tenure_{table} WHERE {of_state}queue > :after"
OLD_OUTCOMES = """
SELECT key FROM tenure_outcome WHERE state = :state AND queue = :queue AND finished < :before
ORDER BY finished, key LIMIT :limit
"""
IDS_AND_TAGS = "SELECT key, id, tags FROM tenure_job WHERE key IN :keys"
DROP_TAGS = "DELETE FROM tenure_tag WHERE key IN :keys"
KEYS = "SELECT key, id FROM tenure_job WHERE id IN :ids"
ENDED = "SELECT key FROM tenure_outcome WHERE key IN :keys FOR UPDATE"
ENDED_OR_DEAD = """
SELECT key FROM tenure_outcome WHERE key IN :keys UNION ALL SELECT key FROM tenure_dead WHERE key IN :keys
"""
ERASE = "UPDATE tenure_job SET body = NULL WHERE key IN :keys"
ERASE_OUTPUT = "UPDATE tenure_outcome SET output = NULL, size = 0 WHERE key IN :keys"
LAST_MOMENT = 1 << 62


# Pages are read without a join: a server that has no statistics of the tables might join all their rows first.
def _page_of(state: str, table: str, order: str, *, due: str = "NULL", owner: str = "NULL") -> str:
    return f"""
SELECT key, queue, '{state}', attempts, crashes, fence, NULL, {owner}, NULL, NULL, NULL, NULL, {due}, {order}, key
FROM {table} WHERE queue = :queue AND {order} >= :first AND ({order} > :first OR key > :second)
ORDER BY {order}, key LIMIT :limit
"""


PAGE_LIVE = {
    "ready": _page_of("ready", "tenure_ready", "rank"),
    "delayed": _page_of("delayed", "tenure_delayed", "due", due="due"),
    "parked": _page_of("parked", "tenure_parked", "rank"),
    "leased": _page_of("leased", "tenure_lease", "expires", owner="owner"),
}
# All of them: a worker has few batches.
BATCHES = "SELECT key, expires FROM tenure_batch WHERE queue = :queue AND expires >= :first ORDER BY expires"
MEMBERS = """
SELECT key, queue, 'leased', 0, 0, 1, NULL, owner, NULL, NULL, NULL, NULL, NULL, expires, key
FROM tenure_member WHERE batch = :batch AND (expires > :first OR key > :second)
"""
MEMBER = "SELECT owner, expires FROM tenure_member WHERE batch <= :key AND last >= :key AND key = :key"
PAGE_ENDED = """
SELECT key, queue, state, attempts, crashes, fence, finished, owner, seconds, reason, output, run, NULL, finished, key
FROM tenure_outcome
WHERE state = (:state) AND queue = (:queue) AND finished <= :first AND (finished < :first OR key < :second)
ORDER BY state DESC, queue DESC, finished DESC, key DESC LIMIT :limit
"""
DEAD_COLUMNS = """
SELECT key, queue, 'dead', attempts, crashes, fence, died, nullif(owner, ''), NULL, reason, NULL, NULL, NULL, died, id
FROM tenure_dead
"""
PAGE_DEAD = f"""
{DEAD_COLUMNS}
WHERE queue = (:queue) AND died <= :first AND (died < :first OR id < :second)
ORDER BY queue DESC, died DESC, id DESC LIMIT :limit
"""
_HEAD_ROWS = 5  # the first jobs of a priority may have come back, and then their waiting time is unknown


def _first_rows(rank: int) -> str:
    return f"""
SELECT * FROM (
    SELECT key, fence FROM tenure_ready WHERE queue = :queue AND rank = {rank} ORDER BY key LIMIT {_HEAD_ROWS}
) AS priority_{-rank}"""


# Two statements, as for pages: PostgreSQL joined these few rows with all jobs of the history.
FIRST_READY = " UNION ALL ".join(_first_rows(-priority) for priority in range(10))
DUES = "SELECT due FROM tenure_job WHERE key IN :keys"
OLDEST_OVERDUE = "SELECT min(due) FROM tenure_delayed WHERE queue = :queue AND due <= :now"
_TABLES = {
    **{state: (state,) for state in ("ready", "delayed", "parked", "dead")},
    "leased": ("batch", "lease"),
}
_decode_cursor = msgspec.json.Decoder(tuple[int, int | str]).decode


class SqlJobs:
    """Reads the tables that the backend writes; the cursor of a page is the place of the last row it shows."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lookup = JobLookup(dialect)

    def find(self, id: str) -> JobRecord | None:
        for _ in range(2):  # a job that leaves its batch between FIND and MEMBER is found by the second FIND
            rows = self._dialect.read(FIND, {"id": id})
            if not rows:
                break
            if found := self._as_found(rows[0]) or self._as_member(rows[0]):
                return found
        return None

    def queues_with(self, state: str) -> list[str]:
        if state not in _TABLES:
            return walk_queues(
                self._dialect, NEXT_QUEUE.format(table="outcome", of_state="state = :state AND "), state=state
            )
        found = {
            queue
            for table in _TABLES[state]
            for queue in walk_queues(self._dialect, NEXT_QUEUE.format(table=table, of_state=""))
        }
        return sorted(found)

    def page(
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,
    ) -> tuple[list[JobRecord], str | None]:
        start = (-LAST_MOMENT, 0) if state in PAGE_LIVE else (before or LAST_MOMENT, "" if state == "dead" else 0)
        first, second = _decode_cursor(cursor) if cursor else start
        given = {"state": state, "queue": queue, "first": first, "second": second, "limit": limit}
        statement = PAGE_DEAD if state == "dead" else PAGE_LIVE.get(state, PAGE_ENDED)
        found = self._leased_page(given) if state == "leased" else self._dialect.read(statement, given)
        places = [row[-2:] for row in found]
        rows = with_jobs(self._dialect, found, JOBS_AND_BODIES_BY_KEY if bodies else JOBS_BY_KEY)
        failures = read_failures(self._dialect, [row[0] for row in rows if may_have_failures(row)])
        after = msgspec.json.encode(places[-1]).decode() if len(places) == limit else None
        records = [
            job_record(row, failures.get(row[0], ()), is_erased=bodies and row[BODY_COLUMN] is None) for row in rows
        ]
        return records, after

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        return self._lookup.tagged(tag, limit, cursor)

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        return self._lookup.with_prefix(prefix, limit)

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        old: list[int] = []
        for name in self.queues_with(state) if queue is None else [queue]:
            page = {"state": state, "queue": name, "before": before, "limit": limit - len(old)}
            old += [key for (key,) in self._dialect.read(OLD_OUTCOMES, page)]

        def delete(rows: Rows) -> None:
            rows(DROP_OUTCOMES, {"keys": old})
            delete_jobs(self._dialect, rows, old)

        if old:
            self._dialect.transact(delete)
        return len(old)

    def forget(self, ids: Sequence[str]) -> list[str]:
        def erase(rows: Rows) -> list[str]:
            jobs: dict[int, str] = dict(rows(KEYS, {"ids": list(ids)}))
            ended = [key for (key,) in rows(ENDED, {"keys": list(jobs)})] if jobs else []
            if ended:
                rows(ERASE, {"keys": ended})
                rows(ERASE_OUTPUT, {"keys": ended})
            return [jobs[key] for key in ended]

        return self._dialect.transact(erase) if ids else []

    def delete(self, ids: Sequence[str]) -> list[str]:
        def delete(rows: Rows) -> list[str]:
            jobs: dict[int, str] = dict(rows(KEYS, {"ids": list(ids)}))
            ended = [key for (key,) in rows(ENDED, {"keys": list(jobs)})] if jobs else []
            if ended:
                rows(DROP_OUTCOMES, {"keys": ended})
                delete_jobs(self._dialect, rows, ended)
            return [jobs[key] for key in ended]

        return self._dialect.transact(delete) if ids else []

    def _as_found(self, row: Row) -> JobRecord | None:
        """The record of a job from a row of FIND; None if it is in no table."""
        *columns, expires, asked, done, total = row
        if columns[5] is None:
            return None
        return job_record(
            tuple(columns),
            read_failures(self._dialect, [columns[0]])[columns[0]],
            lease_until=expires,
            cancel_asked=bool(asked),
            progress=None if done is None else Progress(done, total),
            is_erased=columns[BODY_COLUMN] is None,
        )

    def _as_member(self, row: Row) -> JobRecord | None:
        """The record of a job that is leased as a member of a batch, from a row of FIND."""
        for key, _ in self._dialect.read(KEYS, {"ids": [row[0]]}):
            for owner, expires in self._dialect.read(MEMBER, {"key": key}):
                columns = (*row[:5], "leased", 0, 0, 1, *row[9:12], owner, *row[13:20])
                return job_record(columns, (), lease_until=expires, cancel_asked=False)
        return None

    def _leased_page(self, given: dict[str, Any]) -> list[Row]:
        """Batches are read until their members fill the page; of those that expire at one time all are read."""
        found: list[Row] = []
        last = 0
        for batch, expires in self._dialect.read(BATCHES, given):
            if len(found) >= given["limit"] and expires > last:
                break
            found += self._dialect.read(MEMBERS, {**given, "batch": batch})
            last = expires
        found += self._dialect.read(PAGE_LIVE["leased"], given)  # after the members, which may become rows meanwhile
        unique = {row[0]: row for row in found}
        return sorted(unique.values(), key=lambda row: row[-2:])[: given["limit"]]


class SqlEnds:
    """Two statements, as for pages."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.watch = dialect.watch_ends

    def ended(self, ids: Sequence[str]) -> set[str]:
        jobs: dict[int, str] = dict(self._dialect.read(KEYS, {"ids": list(ids)}))
        over = self._dialect.read(ENDED_OR_DEAD, {"keys": list(jobs)}) if jobs else []
        return {jobs[key] for (key,) in over} | set(ids).difference(jobs.values())


class SqlQueueCounts:
    """Counts by state, and the age of the oldest waiting job from the first few rows of each priority."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for queue, state, count in self._dialect.read(COUNTS if ended else COUNTS_LIVE, {}):
            found.setdefault(queue, dict.fromkeys(JOB_STATES, 0))[state] += count
        return found

    def ended_since(self, state: str, queue: str, since: int, limit: int) -> int:
        given = {"queue": queue, "since": since, "limit": limit}
        if state == "dead":
            ((count,),) = self._dialect.read(DIED_SINCE, given)
        else:
            ((count,),) = self._dialect.read(ENDED_SINCE, {"state": state, **given})
        return int(count)

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        now = self._dialect.now()
        found: dict[str, float] = {}
        for queue in queues:
            first = self._dialect.read(FIRST_READY, {"queue": queue})
            keys = [key for key, fence in first if not fence] or [key for key, _ in first]
            dues = self._dialect.read(DUES, {"keys": keys}) if keys else []
            dues += self._dialect.read(OLDEST_OVERDUE, {"queue": queue, "now": now})
            if known := [due for (due,) in dues if due is not None]:
                found[queue] = max(0, now - min(known)) / MICROSECOND
        return found


def delete_jobs(dialect: Dialect, rows: Rows, keys: Sequence[int]) -> None:
    """Delete jobs, what is recorded about their attempts, and their tags."""
    if dialect.keep_last_key:
        rows(dialect.keep_last_key, {})
    jobs = rows(IDS_AND_TAGS, {"keys": keys})
    rows(DROP_JOBS, {"keys": keys})
    if jobs:
        rows(DROP_FAILURES, {"ids": [id for _, id, _ in jobs]})
    if tagged := [key for key, _, tags in jobs if tags is not None]:
        rows(DROP_TAGS, {"keys": tagged})


def walk_queues(dialect: Dialect, statement: str, **given: str) -> list[str]:
    """The queues, each found through the index as the first one after the last; no row is read twice."""
    found: list[str] = []
    while True:
        ((queue,),) = dialect.read(statement, {**given, "after": found[-1] if found else ""})
        if queue is None:
            return found
        found.append(queue)
