"""MysqlClaims: grants, renews and expires leases in MySQL, and finds out when there is work.

A claim locks rows first and moves them after, in two packets of one transaction.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from tenure.backends.messages import (
    SUSPECT,
    Abandon,
    Ack,
    Lease,
    Nack,
    suspects_key,
    vanished_after,
    vanished_after_expiry,
)
from tenure.backends.sql.backend import claim_in_order, report_orphans
from tenure.backends.sql.batches import EXPAND_BATCH, LeaseBatch, expand
from tenure.backends.sql.control import end_waiting
from tenure.backends.sql.dialect import PROMOTE_BATCH, START, ClaimCursor, Expired, Grant, Pair, Place, Row
from tenure.backends.sql.mysql.connection import BEGIN, COMMIT, MysqlExecutor, MysqlSession, numbers
from tenure.clock import MICROSECOND

UNTIL_WORK = """
(SELECT EXISTS (SELECT 1 FROM tenure_ready WHERE queue = {queue}),
        (SELECT min(due) FROM tenure_delayed WHERE queue = {queue}) - {now})
"""
LATE = "SELECT EXISTS (SELECT 1 FROM tenure_delayed WHERE queue = {queue} AND due <= {now})"
PICK_DELAYED = """
SELECT `key`, `rank`, attempts, crashes, fence, vanished FROM tenure_delayed WHERE queue = {queue} AND due <= {now}
ORDER BY due LIMIT {limit} FOR UPDATE SKIP LOCKED
"""
PICK = """
SELECT `key`, `rank`, attempts, crashes, fence, vanished FROM tenure_ready WHERE queue = {queue} {after}
ORDER BY `rank`, `key` LIMIT {limit} FOR UPDATE SKIP LOCKED
"""
AFTER = "AND ((`rank` = {rank} AND `key` > {key}) OR `rank` > {rank})"
DROP_READY = "DELETE FROM tenure_ready WHERE queue = {queue} AND `rank` = {rank} AND `key` {among}"
DROP_DELAYED = "DELETE FROM tenure_delayed WHERE `key` IN ({keys})"
GRANT = """
INSERT INTO tenure_lease (`key`, queue, `rank`, attempts, crashes, fence, vanished, owner, expires, asked) VALUES {rows}
"""
GRANT_TAIL = "%s, {now} + {length}, 0"
GRANT_BATCH = """
INSERT INTO tenure_batch (`key`, last, queue, owner, expires, `keys`)
VALUES ({batch}, {last}, {queue}, %s, {now} + {length}, '[{keys}]')
"""
BODIES = "SELECT `key`, id, due, body, only_one IS NOT NULL FROM tenure_job WHERE `key` {among}"
READY = "INSERT INTO tenure_ready (queue, `rank`, `key`, attempts, crashes, fence, vanished) VALUES {rows}"
READY_ROW = "(%s, %s, %s, %s, %s, %s, %s)"
APART = "INSERT INTO tenure_parked (guard, queue, `rank`, `key`, attempts, crashes, fence, vanished) VALUES {rows}"
APART_ROW = "(%s, %s, %s, %s, %s, %s, %s, %s)"
HELD = "SELECT `key`, queue, `rank`, attempts, crashes, fence, vanished, asked FROM tenure_lease"
HELD_BY_OWNER = f"{HELD} WHERE `key` IN ({{keys}}) AND owner = {{owner}} ORDER BY `key` FOR UPDATE"
HELD_BATCHES = "SELECT `key` FROM tenure_batch WHERE `key` IN ({keys}) AND owner = {owner} ORDER BY `key` FOR UPDATE"
HELD_EXPIRED = f"""{HELD} WHERE queue = {{queue}} AND expires <= {{now}}
ORDER BY expires LIMIT {{limit}} FOR UPDATE SKIP LOCKED
"""
EXPIRED_BATCHES = """
SELECT `key` FROM tenure_batch WHERE queue = {queue} AND expires <= {now} ORDER BY expires LIMIT {limit}
"""
IDS = "SELECT `key`, id FROM tenure_job WHERE `key` IN ({keys})"
RENEW = "UPDATE tenure_lease SET expires = {now} + {length} WHERE `key` IN ({keys})"
DROP_LEASES = "DELETE FROM tenure_lease WHERE `key` IN ({keys})"


class ReadyRow(NamedTuple):
    """A row of tenure_ready or tenure_delayed, without its queue."""

    key: int
    rank: int
    attempts: int
    crashes: int
    fence: int
    vanished: int


_FRESH = (0, 0, 0, 0)


class HeldRow(NamedTuple):
    """A locked row of tenure_lease."""

    key: int
    queue: str
    rank: int
    attempts: int
    crashes: int
    fence: int
    vanished: int
    asked: int

    def outcome_columns(self, verdict: Ack) -> Row:
        """The first columns of tenure_outcome."""
        return (self.key, self.queue, verdict.state, self.attempts, self.crashes, self.fence)

    def charged(self, verdict: Nack | Abandon) -> tuple[int, int]:
        """The attempts and crashes after this settlement."""
        return self.attempts + (verdict.charge == "attempt"), self.crashes + (verdict.charge == "crash")

    def ready_columns(self, verdict: Nack) -> Row:
        """The columns of tenure_ready after this settlement."""
        return (self.queue, self.rank, self.key, *self.charged(verdict), self.fence, vanished_after(verdict))

    def expired_columns(self, suspect_after: int) -> Row:
        """The columns of tenure_ready after the lease expired."""
        crashes = self.crashes + (self.vanished == SUSPECT)
        vanished = vanished_after_expiry(self.vanished, suspect_after)
        return (self.queue, self.rank, self.key, self.attempts, crashes, self.fence, vanished)


class MysqlClaims:
    """Everything up to the settlement of a lease; times are by the server's clock."""

    def __init__(self, executor: MysqlExecutor, cursor: ClaimCursor) -> None:
        self._executor = executor
        self._cursor = cursor

    def until_work(self, queues: Sequence[str]) -> float:
        def ask(session: MysqlSession) -> list[Row]:
            parts = [session.fill(UNTIL_WORK, queue=session.quote(queue)) for queue in queues]
            return session.send(" UNION ALL ".join(parts))[0]

        rows = self._executor.ask(ask)
        if any(ready for ready, _ in rows):
            return 0.0
        waits = [max(0.0, int(wait) / MICROSECOND) for _, wait in rows if wait is not None]
        return min(waits, default=float("inf"))

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        commit = [COMMIT] if len(queues) == 1 else []  # several queues are claimed in one transaction

        def take(session: MysqlSession) -> list[Lease]:
            return claim_in_order(queues, limit, partial(self._claim_from, session, grant, commit))

        return self._executor.transaction(take)

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        def extend(session: MysqlSession) -> set[Pair]:
            held = {(row.key, row.fence) for row in held_rows(session, grant.owner, leases)}
            mine = [lease for lease in leases if (lease.token, lease.fence) in held]
            if mine:
                length = round(grant.seconds * MICROSECOND)
                keys = numbers(lease.token for lease in mine)
                session.send(session.fill(RENEW, keys=keys, length=length), COMMIT)
            return {(lease.id, lease.fence) for lease in mine}

        return self._executor.transaction(extend)

    def expire(self, queue: str, limit: int, suspect_after: int) -> list[Expired]:
        def give_back(session: MysqlSession) -> list[Expired]:
            name = session.quote(queue)
            late = session.fill(EXPIRED_BATCHES, queue=name, limit=EXPAND_BATCH)
            select = session.fill(HELD_EXPIRED, queue=name, limit=limit)
            _, batches, rows = session.send(BEGIN, late, select)
            if batches:
                expand(session.neutral, [key for (key,) in batches])
                (rows,) = session.send(select)
            held = [HeldRow(*row) for row in rows]
            if not held:
                return []
            keys = numbers(row.key for row in held)
            ids = session.send(
                session.fill(DROP_LEASES, keys=keys),
                *ready_or_apart(session, [row.expired_columns(suspect_after) for row in held]),
                session.fill(IDS, keys=keys),
            )[-1]
            end_cancelled(self._executor, session, held)
            id_of: dict[int, str] = dict(ids)
            return [Expired(row.key, id_of[row.key], row.vanished, row.attempts, row.fence) for row in held]

        expired = self._executor.transaction(give_back)
        if expired:
            self._cursor.drop(queue)
        return expired

    def _claim_from(
        self, session: MysqlSession, grant: Grant, commit: list[str], queue: str, limit: int
    ) -> list[Lease]:
        start, started = self._cursor.start_of(queue), time.monotonic()
        rows = _pick(session, queue, limit, start)
        if not rows and start != START:
            start = START
            rows = _pick(session, queue, limit, start)
        if len(rows) == limit:
            self._cursor.move_to(queue, (rows[-1].rank, rows[-1].key), started, start == START)
        else:
            self._cursor.drop(queue)
        return _grant(session, grant, queue, rows, commit) if rows else []


def ready_or_apart(session: MysqlSession, rows: Sequence[Row]) -> list[str]:
    """Statements that make jobs with these columns ready, and park the suspects among them."""
    ready = [row for row in rows if row[-1] != SUSPECT]
    apart = [(suspects_key(row[0]), *row) for row in rows if row[-1] == SUSPECT]
    return [
        *([session.rows(READY, READY_ROW, ready)] if ready else []),
        *([session.rows(APART, APART_ROW, apart)] if apart else []),
    ]


def held_rows(session: MysqlSession, owner: str, leases: Sequence[Lease]) -> list[HeldRow]:
    """Lock the leases that this owner holds, in the transaction of the session or in a new one."""
    keys = numbers(lease.token for lease in leases)
    begin = [] if session.in_transaction else [BEGIN]
    rows = session.send(*begin, session.fill(HELD_BY_OWNER, keys=keys, owner=session.quote(owner)))[-1]
    return [HeldRow(*row) for row in rows]


def held_members(session: MysqlSession, owner: str, verdicts: Sequence[Ack], batches: list[int]) -> list[HeldRow]:
    """Lock the batches that this owner holds; return a row for each of these members of them."""
    begin = [] if session.in_transaction else [BEGIN]
    select = session.fill(HELD_BATCHES, keys=numbers(batches), owner=session.quote(owner))
    held = {key for (key,) in session.send(*begin, select)[-1]}
    leases = [verdict.lease for verdict in verdicts if verdict.lease.batch.key in held]
    return [HeldRow(lease.token, lease.queue, -lease.priority, 0, 0, 1, 0, 0) for lease in leases]


def end_cancelled(executor: MysqlExecutor, session: MysqlSession, held: list[HeldRow]) -> None:
    """End jobs that went back to their place although a user cancelled them."""
    cancelled = [row.key for row in held if row.asked]
    if cancelled:
        end_waiting(session.neutral, cancelled, executor.time_in(session.neutral))


def _pick(session: MysqlSession, queue: str, limit: int, start: Place) -> list[ReadyRow]:
    """Lock the rows that may be leased; due delayed jobs become ready first."""
    name = session.quote(queue)
    after = "" if start == START else AFTER.format(rank=start[0], key=start[1])
    pick = session.fill(PICK, queue=name, after=after, limit=limit)
    _, ((is_late,),), rows = session.send(BEGIN, session.fill(LATE, queue=name), pick)
    if is_late:
        late = session.fill(PICK_DELAYED, queue=name, limit=PROMOTE_BATCH)
        due = [ReadyRow(*row) for row in session.send(late)[0]]
        if due:
            session.send(
                *ready_or_apart(session, [(queue, row.rank, row.key, *row[2:]) for row in due]),
                session.fill(DROP_DELAYED, keys=numbers(row.key for row in due)),
            )
        (rows,) = session.send(session.fill(PICK, queue=name, after="", limit=limit))
    return [ReadyRow(*row) for row in rows]


def _grant(session: MysqlSession, grant: Grant, queue: str, rows: Sequence[ReadyRow], commit: list[str]) -> list[Lease]:
    """Move locked rows from ready to a batch and to leases, and read their bodies."""
    name = session.quote(queue)
    fresh = [row.key for row in rows if row[2:] == _FRESH]
    batch = LeaseBatch(min(fresh), fresh) if len(fresh) > 1 else None
    bodies = session.send(
        *_drop_ready(session, name, rows),
        *_insert_leases(session, grant, name, rows, batch),
        session.fill(BODIES, among=_among([row.key for row in rows])),
        *commit,
    )[-1 - len(commit)]
    jobs = {key: rest for key, *rest in bodies}
    if orphans := [row.key for row in rows if row.key not in jobs]:
        session.send(session.fill(DROP_LEASES, keys=numbers(orphans)), COMMIT)
        report_orphans(queue, len(orphans))
        if batch:
            batch.left.difference_update(orphans)
    return [_lease(queue, grant.owner, row, batch, jobs[row.key]) for row in rows if row.key in jobs]


def _insert_leases(
    session: MysqlSession, grant: Grant, name: str, rows: Sequence[ReadyRow], batch: LeaseBatch | None
) -> list[str]:
    """Statements that store these leases: the members of the batch as one row."""
    length = round(grant.seconds * MICROSECOND)
    tail = session.fill(GRANT_TAIL, grant.owner, length=length)
    members = batch.left if batch else ()
    leased = [
        f"({row.key},{name},{row.rank},{row.attempts},{row.crashes},{row.fence + 1},{row.vanished},{tail})"
        for row in rows
        if row.key not in members
    ]
    statements = [GRANT.replace("{rows}", ",".join(leased))] if leased else []
    if batch:
        values = {
            "batch": batch.key,
            "last": max(batch.left),
            "queue": name,
            "length": length,
            "keys": numbers(batch.left),
        }
        statements.append(session.fill(GRANT_BATCH, grant.owner, **values))
    return statements


def _among(keys: Sequence[int]) -> str:
    """A condition on keys; as a range if no other key is in between, since each key of a list is sought by itself."""
    first, last = min(keys), max(keys)
    return f"BETWEEN {first} AND {last}" if last - first < len(keys) else f"IN ({numbers(keys)})"


def _drop_ready(session: MysqlSession, name: str, rows: Sequence[ReadyRow]) -> list[str]:
    keys: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        keys[row.rank].append(row.key)
    return [session.fill(DROP_READY, queue=name, rank=rank, among=_among(same)) for rank, same in keys.items()]


def _lease(queue: str, owner: str, row: ReadyRow, batch: LeaseBatch | None, job: Sequence[Any]) -> Lease:
    id, due, body, is_unique = job
    return Lease(
        id=id,
        queue=queue,
        body=body,
        owner=owner,
        fence=row.fence + 1,
        attempts=row.attempts,
        crashes=row.crashes,
        vanished=row.vanished,
        priority=-row.rank,
        due=due,
        token=row.key,
        is_unique=bool(is_unique),
        batch=batch if batch and row.key in batch.left else None,
    )
