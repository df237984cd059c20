"""PostgresClaims: grants, renews and expires leases with one statement each, and finds out when there is work.

`OFFSET 0` and arrays made of subqueries pin the plan to index lookups, for all statistics. Rows are locked in the order
of their keys, so that two verbs of one worker do not deadlock.
"""

import time
from collections.abc import Sequence
from functools import partial

from tenure.backends.messages import ON_REQUEST, SUSPECT, SUSPECTS_PREFIX, Lease
from tenure.backends.sql.backend import claim_in_order, report_orphans
from tenure.backends.sql.batches import EXPAND_BATCH, LeaseBatch, expand
from tenure.backends.sql.dialect import PROMOTE_BATCH, START, ClaimCursor, Expired, Grant, Pair, Row
from tenure.backends.sql.postgresql.connection import NOW, PostgresExecutor, number_array, text_array
from tenure.clock import MICROSECOND

UNTIL_WORK = f"""
SELECT EXISTS (SELECT 1 FROM unnest(%(queues)s::text[]) AS q(name),
                      LATERAL (SELECT 1 FROM tenure_ready WHERE queue = q.name LIMIT 1) AS r),
       (SELECT min(d.due) - {NOW} FROM unnest(%(queues)s::text[]) AS q(name),
               LATERAL (SELECT due FROM tenure_delayed WHERE queue = q.name ORDER BY due LIMIT 1) AS d)
"""
# Ends before its FROM. A suspect waits apart instead of becoming ready.
PARK_SUSPECTS = f"""\
INSERT INTO tenure_parked (key, guard, queue, rank, attempts, crashes, fence, vanished)
    SELECT key, '{SUSPECTS_PREFIX}' || queue, queue, rank, attempts, crashes, fence, vanished"""
PROMOTE = f"""
WITH late AS MATERIALIZED (
    SELECT key FROM tenure_delayed WHERE queue = %(queue)s AND due <= {NOW}
    ORDER BY due, key LIMIT %(most)s FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM tenure_delayed WHERE key = ANY(ARRAY(SELECT key FROM late)) RETURNING *
), apart AS (
    {PARK_SUSPECTS} FROM moved WHERE vanished < 0
)
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
SELECT queue, rank, key, attempts, crashes, fence, vanished FROM moved WHERE vanished >= 0
"""
IS_FRESH = "fence = 0 AND attempts = 0 AND crashes = 0 AND vanished = 0"
# Due delayed jobs must become ready first: then this statement picks nothing, and the caller promotes and repeats it.
# Bodies are read by the range of the keys, if few other jobs are in it: to seek each key takes 0.5 us more, and one
# more page for each job in a large table.
CLAIM = f"""
WITH late AS MATERIALIZED (
    SELECT %(promote)s AND EXISTS (
        SELECT 1 FROM tenure_delayed WHERE queue = %(queue)s AND due <= {NOW}
    ) AS waits
), picked AS MATERIALIZED (
    SELECT ctid AS place, rank, key, attempts, crashes, fence, vanished FROM tenure_ready
    WHERE queue = %(queue)s AND (rank, key) > (%(rank)s::smallint, %(key)s::bigint) AND NOT (SELECT waits FROM late)
    ORDER BY rank, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM tenure_ready WHERE ctid = ANY(ARRAY(SELECT place FROM picked))
), fresh AS MATERIALIZED (
    SELECT min(key) AS key, max(key) AS last, array_agg(key) AS keys FROM picked WHERE {IS_FRESH} HAVING count(*) > 1
), batch AS (
    INSERT INTO tenure_batch (key, last, queue, owner, expires, keys)
    SELECT key, last, %(queue)s, %(owner)s, {NOW} + %(length)s::bigint, keys FROM fresh
), leased AS (
    INSERT INTO tenure_lease (key, queue, rank, attempts, crashes, fence, vanished, owner, expires, asked)
    SELECT key, %(queue)s, rank, attempts, crashes, fence + 1, vanished, %(owner)s, {NOW} + %(length)s::bigint, 0
    FROM picked WHERE NOT ({IS_FRESH} AND EXISTS (SELECT 1 FROM fresh))
), range AS MATERIALIZED (
    SELECT min(key) AS first, max(key) AS last, max(key) - min(key) < 2 * count(*) AS is_dense FROM picked
), job AS (
    SELECT key, id, due, body, only_one FROM tenure_job
    WHERE (SELECT is_dense FROM range) AND key BETWEEN (SELECT first FROM range) AND (SELECT last FROM range)
    UNION ALL
    SELECT j.* FROM picked AS p CROSS JOIN LATERAL (
        SELECT key, id, due, body, only_one FROM tenure_job WHERE key = p.key OFFSET 0
    ) AS j WHERE NOT (SELECT is_dense FROM range)
)
SELECT late.waits, p.key, p.rank, p.attempts, p.crashes, p.fence + 1, p.vanished, j.id, j.due, j.body,
       j.only_one IS NOT NULL, CASE WHEN {IS_FRESH} THEN (SELECT key FROM fresh) END
FROM late LEFT JOIN (picked AS p LEFT JOIN job AS j ON j.key = p.key) ON true
ORDER BY p.rank, p.key
"""
RENEW = f"""
UPDATE tenure_lease AS l SET expires = {NOW} + %(length)s::bigint
FROM unnest(%(keys)s::bigint[], %(fences)s::int[]) AS i(key, fence)
WHERE l.key = ANY(%(keys)s::bigint[]) AND l.key = i.key AND l.fence = i.fence AND l.owner = %(owner)s
RETURNING l.key, l.fence
"""
# A job that a user cancelled ends instead of going back to its place.
END_CANCELLED = f"""\
freed AS (
    UPDATE tenure_job SET only_one = NULL WHERE key = ANY(ARRAY(SELECT key FROM back WHERE asked <> 0))
    RETURNING key, coalesce(length(body), 0) AS size
), cancelled AS (
    INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size, reason)
    SELECT b.key, b.queue, 'cancelled', b.attempts, b.crashes, b.fence, {NOW}, f.size, %(reason)s
    FROM back AS b JOIN freed AS f ON f.key = b.key
)"""
EXPIRE = f"""
WITH late AS MATERIALIZED (
    SELECT key FROM tenure_lease WHERE queue = %(queue)s AND expires <= {NOW}
    ORDER BY expires LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), held AS (
    DELETE FROM tenure_lease WHERE key = ANY(ARRAY(SELECT key FROM late)) RETURNING *
), back AS MATERIALIZED (
    SELECT key, queue, rank, attempts, crashes + (vanished < 0)::int AS crashes, fence, asked, vanished AS before,
           CASE WHEN vanished < 0 OR vanished + 1 >= %(suspect_after)s THEN {SUSPECT} ELSE vanished + 1 END AS vanished
    FROM held
), ready AS (
    INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
    SELECT queue, rank, key, attempts, crashes, fence, vanished FROM back WHERE asked = 0 AND vanished >= 0
), apart AS (
    {PARK_SUSPECTS} FROM back WHERE asked = 0 AND vanished < 0
), {END_CANCELLED}
SELECT b.key, j.id, b.before, b.attempts, b.fence FROM back AS b
CROSS JOIN LATERAL (SELECT id FROM tenure_job WHERE key = b.key OFFSET 0) AS j
UNION ALL (
    SELECT key, NULL, 0, 0, 0 FROM tenure_batch WHERE queue = %(queue)s AND expires <= {NOW}
    ORDER BY queue, expires LIMIT {EXPAND_BATCH}
)
"""


DROP_LEASES = "DELETE FROM tenure_lease WHERE key = ANY(%(keys)s::bigint[])"


class PostgresClaims:
    """Everything up to the settlement of a lease; times are by the server's clock."""

    def __init__(self, executor: PostgresExecutor, cursor: ClaimCursor) -> None:
        self._executor = executor
        self._cursor = cursor

    def until_work(self, queues: Sequence[str]) -> float:
        ready, microseconds = self._executor.ask(UNTIL_WORK, {"queues": text_array(queues)})[0]
        if ready:
            return 0.0
        return float("inf") if microseconds is None else max(0.0, microseconds / MICROSECOND)

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        return claim_in_order(queues, limit, partial(self._claim_from, grant))

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        ordered = sorted(leases, key=lambda lease: lease.token)
        rows = self._executor.ask(
            RENEW,
            {
                "keys": number_array([lease.token for lease in ordered]),
                "fences": number_array([lease.fence for lease in ordered]),
                "owner": grant.owner,
                "length": round(grant.seconds * MICROSECOND),
            },
        )
        renewed = set(rows)
        return {(lease.id, lease.fence) for lease in leases if (lease.token, lease.fence) in renewed}

    def expire(self, queue: str, limit: int, suspect_after: int) -> list[Expired]:
        page = {"queue": queue, "limit": limit, "suspect_after": suspect_after, "reason": ON_REQUEST}
        rows = self._executor.ask(EXPIRE, page)
        if batches := [key for key, id, *_ in rows if id is None]:
            self._executor.transact(lambda rows: expand(rows, batches))
            rows = self._executor.ask(EXPIRE, page)
        if rows:
            self._cursor.drop(queue)
        return [Expired(*row) for row in rows if row[1] is not None]

    def _claim_from(self, grant: Grant, queue: str, limit: int) -> list[Lease]:
        start, started = self._cursor.start_of(queue), time.monotonic()
        wanted = {
            **{"queue": queue, "limit": limit, "promote": True, "rank": start[0], "key": start[1]},
            **{"owner": grant.owner, "length": round(grant.seconds * MICROSECOND)},
        }
        rows = self._executor.ask(CLAIM, wanted)
        if rows[0][0]:
            self._executor.ask(PROMOTE, {"queue": queue, "most": PROMOTE_BATCH})
            start = START
            rows = self._executor.ask(CLAIM, {**wanted, "promote": False, "rank": start[0], "key": start[1]})
        granted = [row for row in rows if row[1] is not None]
        leases = _leases(queue, grant.owner, [row for row in granted if row[7] is not None])
        if orphans := [row[1] for row in granted if row[7] is None]:
            self._executor.ask(DROP_LEASES, {"keys": number_array(orphans)})
            report_orphans(queue, len(orphans))
        if len(granted) == limit:
            self._cursor.move_to(queue, (rows[-1][2], rows[-1][1]), started, start == START)
        else:
            self._cursor.drop(queue)
        if not leases and start != START:
            return self._claim_from(grant, queue, limit)
        return leases


def _leases(queue: str, owner: str, rows: list[Row]) -> list[Lease]:
    members = [row for row in rows if row[11] is not None]
    batch = LeaseBatch(members[0][11], [row[1] for row in members]) if members else None
    return [_lease(queue, owner, row, batch) for row in rows]


def _lease(queue: str, owner: str, row: Row, batch: LeaseBatch | None) -> Lease:
    _, key, rank, attempts, crashes, fence, vanished, id, due, body, is_unique, batch_key = row
    return Lease(
        id=id,
        queue=queue,
        body=body,
        owner=owner,
        fence=fence,
        attempts=attempts,
        crashes=crashes,
        vanished=vanished,
        priority=-rank,
        due=due,
        token=key,
        is_unique=is_unique,
        batch=None if batch_key is None else batch,
    )
