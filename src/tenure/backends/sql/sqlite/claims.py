"""SqliteClaims: grants, renews and expires leases in SQLite, and finds out when there is work."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tenure.backends.messages import SUSPECT, SUSPECTS_PREFIX, Lease
from tenure.backends.sql.backend import claim_in_order, report_orphans
from tenure.backends.sql.batches import EXPAND_BATCH, LeaseBatch, expand
from tenure.backends.sql.control import end_waiting
from tenure.backends.sql.dialect import PROMOTE_BATCH, Expired, Grant, Pair
from tenure.backends.sql.sqlite.compound import compound
from tenure.backends.sql.sqlite.database import BEGIN, Database, json_text, rows_on
from tenure.backends.sql.sqlite.repair import repair
from tenure.clock import MICROSECOND
from tenure.definition.limits import MAX_COUNT, Count, Text

UNTIL_WORK = """
SELECT EXISTS (SELECT 1 FROM tenure_ready WHERE queue = :queue),
       (SELECT min(due) FROM tenure_delayed WHERE queue = :queue AND due < 9e18)
"""
_PROMOTED = """
FROM tenure_delayed WHERE queue = :queue AND due <= :now ORDER BY due, key LIMIT :most
"""
PROMOTE = (
    f"""
INSERT INTO tenure_ready SELECT queue, rank, key, attempts, crashes, fence, vanished FROM (SELECT * {_PROMOTED})
WHERE vanished >= 0
""",
    f"""
INSERT INTO tenure_parked
SELECT key, '{SUSPECTS_PREFIX}' || queue, queue, rank, attempts, crashes, fence, vanished FROM (SELECT * {_PROMOTED})
WHERE vanished < 0
""",
    f"DELETE FROM tenure_delayed WHERE key IN (SELECT key {_PROMOTED})",
)
CLAIM = """
SELECT CAST(json_group_array(json_array(
           key, id, rank, attempts, crashes, fence, vanished, due, length(CAST(body AS BLOB)), is_unique)) AS BLOB),
       CAST(group_concat(CAST(body AS TEXT), '') AS BLOB),
       EXISTS (SELECT 1 FROM tenure_delayed WHERE queue = :queue AND due <= :now)
FROM (
    SELECT r.key, j.id, r.rank, r.attempts, r.crashes, r.fence, r.vanished, j.due, j.body,
           j.only_one IS NOT NULL AS is_unique
    FROM tenure_ready AS r JOIN tenure_job AS j ON j.key = r.key
    WHERE r.queue = :queue ORDER BY r.rank, r.key LIMIT :limit
)
"""
# The key list matters: a caller's own transaction may have put a job with a smaller key since the claim.
_UP_TO = "queue = :queue AND (rank, key) <= (:rank, :key)"
_DROP_READY = f"DELETE FROM tenure_ready WHERE {_UP_TO} AND key IN (SELECT value FROM json_each(:keys))"
GRANT = compound(
    "tenure_grant",
    f"""
INSERT INTO tenure_lease
SELECT key, queue, rank, attempts, crashes, fence + 1, vanished, :owner, :expires, 0, NULL, NULL
FROM tenure_ready WHERE {_UP_TO} AND key IN (SELECT value FROM json_each(:keys))
""",
    _DROP_READY,
)
GRANT_BATCH = compound(
    "tenure_grant_batch",
    "INSERT INTO tenure_batch VALUES (:batch, :last, :queue, :owner, :expires, :keys)",
    _DROP_READY,
)
DROP_ORPHANS = "DELETE FROM tenure_ready WHERE queue = :queue AND key NOT IN (SELECT key FROM tenure_job)"
HELD = """
SELECT json_group_array(json_array(l.key, l.fence)), json_group_array(l.key) FILTER (WHERE l.asked)
FROM json_each(:keys) AS e JOIN tenure_lease AS l ON l.key = e.value
WHERE l.owner = :owner AND typeof(l.fence) = 'integer'
"""
RENEW = "UPDATE tenure_lease SET expires = :expires WHERE key IN (SELECT value FROM json_each(:keys))"
EXPIRED = """
SELECT json_group_array(json_array(key, id, vanished, attempts, fence)), json_group_array(key) FILTER (WHERE asked)
FROM (
    SELECT l.key, iif(typeof(j.id) = 'text', j.id, hex(j.id)) AS id, CAST(l.vanished AS INTEGER) AS vanished, l.asked,
           CAST(l.attempts AS INTEGER) AS attempts, CAST(l.fence AS INTEGER) AS fence
    FROM tenure_lease AS l JOIN tenure_job AS j ON j.key = l.key
    WHERE l.queue = :queue AND l.expires <= :now ORDER BY l.expires LIMIT :limit
)
"""
EXPIRED_BATCHES = f"""
SELECT key FROM tenure_batch WHERE queue = :queue AND expires <= :now ORDER BY expires LIMIT {EXPAND_BATCH}
"""
RETURN_EXPIRED = """
INSERT INTO tenure_ready SELECT queue, rank, key, attempts, crashes, fence, vanished + 1
FROM tenure_lease WHERE key IN (SELECT value FROM json_each(:keys)) AND vanished >= 0 AND vanished + 1 < :suspect_after
"""
PARK_EXPIRED = f"""
INSERT INTO tenure_parked
SELECT key, '{SUSPECTS_PREFIX}' || queue, queue, rank, attempts, crashes + (vanished < 0), fence, {SUSPECT}
FROM tenure_lease
WHERE key IN (SELECT value FROM json_each(:keys)) AND (vanished < 0 OR vanished + 1 >= :suspect_after)
"""
DROP_LEASES = "DELETE FROM tenure_lease WHERE key IN (SELECT value FROM json_each(:keys))"


class ClaimedRow(Struct, array_like=True, gc=False):
    """One row of a claim, as CLAIM writes it; its bounds are those that `repair` restores."""

    key: int
    id: Text
    rank: Annotated[int, Meta(ge=-9, le=0)]
    attempts: Count
    crashes: Count
    fence: Annotated[int, Meta(ge=0, le=MAX_COUNT - 1)]
    vanished: Count
    due: int
    size: int
    is_unique: bool


Granted = tuple[str, ClaimedRow, bytes, str | None, LeaseBatch | None]  # with the queue, the body and the fault
_decode_ready = msgspec.json.Decoder(list[ClaimedRow], strict=False).decode
_decode_expired = msgspec.json.Decoder(list[Expired], strict=False).decode
_decode_keys = msgspec.json.Decoder(list[int]).decode
_decode_pairs = msgspec.json.Decoder(list[tuple[int, int]]).decode


class SqliteClaims:
    """Everything up to the settlement of a lease; times are by the host's clock."""

    def __init__(self, database: Database, now: Callable[[], int]) -> None:
        self._database = database
        self._now = now

    def until_work(self, queues: Sequence[str]) -> float:
        soonest = float("inf")
        for queue in queues:
            ready, due = self._database.read(UNTIL_WORK, {"queue": queue})[0]
            if ready:
                return 0.0
            if due is not None:
                soonest = min(soonest, max(0.0, (due - self._now()) / MICROSECOND))
        return soonest

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        """Several queues are one transaction, so that an error in one does not lose what another granted."""
        with self._database.write_turn() if len(queues) == 1 else self._database.transaction() as tx:
            found = claim_in_order(queues, limit, partial(self._claim_from, tx, grant))
        return [_lease(grant.owner, *granted) for granted in found]

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        wanted = lease_keys(grant.owner, leases)
        with self._database.transaction() as tx:
            held, _ = held_leases(tx, wanted, leases)
            keys = json_text([lease.token for lease in leases if (lease.id, lease.fence) in held])
            tx.execute(RENEW, {"keys": keys, "expires": self._now() + round(grant.seconds * MICROSECOND)})
        return held

    def expire(self, queue: str, limit: int, suspect_after: int) -> list[Expired]:
        page = {"queue": queue, "now": self._now(), "limit": limit}
        batches = [key for (key,) in self._database.read(EXPIRED_BATCHES, page)]
        if not batches and self._database.read(EXPIRED, {**page, "limit": 1})[0][0] == "[]":
            return []
        with self._database.transaction() as tx:
            expand(rows_on(tx), batches)
            found, cancelled = tx.execute(EXPIRED, page).fetchone()
            expired = _decode_expired(found)
            keys = {"keys": json_text([row.key for row in expired])}
            tx.execute(RETURN_EXPIRED, {**keys, "suspect_after": suspect_after})
            tx.execute(PARK_EXPIRED, {**keys, "suspect_after": suspect_after})
            tx.execute(DROP_LEASES, keys)
            end_cancelled(tx, cancelled, self._now())
        return expired

    def _claim_from(self, tx: Any, grant: Grant, queue: str, limit: int) -> list[Granted]:
        now = self._now()
        wanted = {"queue": queue, "limit": limit, "now": now, "most": PROMOTE_BATCH}
        faults: dict[int, str] = {}
        try:
            rows, bodies = _read_ready(tx, wanted)
        except (sqlite3.OperationalError, msgspec.MsgspecError, UnicodeDecodeError):
            if not tx.in_transaction:
                tx.execute(BEGIN)
            faults = repair(tx, wanted)
            rows, bodies = _read_ready(tx, wanted)
        batch = None
        if rows:
            expires = now + round(grant.seconds * MICROSECOND)
            batch = _grant(tx, rows, {"queue": queue, "owner": grant.owner, "expires": expires})
        elif orphans := tx.execute(DROP_ORPHANS, wanted).rowcount:
            report_orphans(queue, orphans)
        return _with_bodies(queue, rows, bodies, faults, batch)


def _read_ready(tx: Any, wanted: dict[str, Any]) -> tuple[list[ClaimedRow], bytes]:
    """The rows that may be leased and their bodies; due delayed jobs become ready first."""
    found, bodies, has_due = tx.execute(CLAIM, wanted).fetchone()
    if has_due:
        if not tx.in_transaction:
            tx.execute(BEGIN)
        for statement in PROMOTE:
            tx.execute(statement, wanted)
        found, bodies, _ = tx.execute(CLAIM, wanted).fetchone()
    return _decode_ready(found), bodies


def _grant(tx: Any, rows: list[ClaimedRow], granted: dict[str, Any]) -> LeaseBatch | None:
    """Move these rows from ready to a batch and to leases; return the batch."""
    granted |= {"rank": rows[-1].rank, "key": rows[-1].key}
    fresh = [row.key for row in rows if not (row.fence or row.attempts or row.crashes or row.vanished)]
    if len(fresh) < 2:
        fresh = []
    if 0 < len(fresh) < len(rows) and not tx.in_transaction:
        tx.execute(BEGIN)
    if len(fresh) < len(rows):
        members = set(fresh)
        tx.execute(GRANT.call, {**granted, "keys": json_text([row.key for row in rows if row.key not in members])})
    if not fresh:
        return None
    batch = LeaseBatch(min(fresh), fresh)
    tx.execute(GRANT_BATCH.call, {**granted, "batch": batch.key, "last": max(fresh), "keys": json_text(fresh)})
    return batch


def lease_keys(owner: str, leases: Sequence[Lease]) -> dict[str, str]:
    """The parameters of HELD."""
    return {"keys": json_text([lease.token for lease in leases]), "owner": owner}


def held_leases(tx: Any, wanted: dict[str, str], leases: Sequence[Lease]) -> tuple[set[Pair], str]:
    """Those of these leases that are held, and the keys of those that a user cancelled, as a JSON array."""
    found, cancelled = tx.execute(HELD, wanted).fetchone()
    held = set(_decode_pairs(found))
    return {(lease.id, lease.fence) for lease in leases if (lease.token, lease.fence) in held}, cancelled


def end_cancelled(tx: Any, cancelled: str, now: int) -> None:
    """End jobs that went back to their place although a user cancelled them; `cancelled` is a JSON array of keys."""
    if cancelled != "[]":
        end_waiting(rows_on(tx), _decode_keys(cancelled), now)


def _with_bodies(
    queue: str, rows: list[ClaimedRow], bodies: bytes, faults: dict[int, str], batch: LeaseBatch | None
) -> list[Granted]:
    ends = list(accumulate((row.size for row in rows), initial=0))
    members = batch.left if batch else ()
    return [
        (queue, row, bodies[start:end], faults.get(row.key), batch if row.key in members else None)
        for row, (start, end) in zip(rows, pairwise(ends), strict=True)
    ]


def _lease(owner: str, queue: str, row: ClaimedRow, body: bytes, fault: str | None, batch: LeaseBatch | None) -> Lease:
    return Lease(
        id=row.id,
        queue=queue,
        body=body,
        owner=owner,
        fence=row.fence + 1,
        attempts=row.attempts,
        crashes=row.crashes,
        vanished=row.vanished,
        priority=-row.rank,
        due=row.due,
        token=row.key,
        is_unique=row.is_unique,
        fault=fault,
        batch=batch,
    )
