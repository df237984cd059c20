"""SqlBackend: the verbs on split tables.

A lease is taken by moving rows from ready to lease in one transaction, and lost when its row is reaped. Leases on fresh
jobs are one row (`batches`).
`abandon` moves the body to the dead letters in the same transaction. Order is strict: priority, then enqueue.
"""

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

import msgspec

from tenure.backends.contract import Backend
from tenure.backends.messages import (
    DEFAULT_SUSPECT_AFTER,
    SUSPECT,
    Abandon,
    Ack,
    Lease,
    Message,
    Nack,
    Park,
    ReapedLease,
)
from tenure.backends.parts import DatabaseFile, ServerInfo
from tenure.backends.sql.archive import SqlArchive
from tenure.backends.sql.async_connections import async_connection
from tenure.backends.sql.audit import SqlAuditLog
from tenure.backends.sql.batches import LeaseBatch, expand_leases
from tenure.backends.sql.connections import driver_connection, first_column
from tenure.backends.sql.control import SqlControl
from tenure.backends.sql.dead_letters import SqlDeadLetters
from tenure.backends.sql.dialect import Dialect, Expired, Grant, Pair, Rows
from tenure.backends.sql.guards import SqlGuards
from tenure.backends.sql.job_lookup import SqlRecentJobs
from tenure.backends.sql.jobs import SqlEnds, SqlJobs, SqlQueueCounts
from tenure.backends.sql.ledger import SqlLedger
from tenure.backends.sql.migrations import SqlSchema
from tenure.backends.sql.payloads import SqlPayloads
from tenure.backends.sql.suspects import has_suspects, lease_suspect
from tenure.backends.sql.workers import SqlStats, SqlWorkers
from tenure.definition.failure import from_expiry
from tenure.errors import BackendUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
V = TypeVar("V", Ack, Nack, Abandon, Park)
_REAP_BATCH = 500
_LOST_RACE_SECONDS = 0.005  # doubles with every claim of one wait that finds nothing
RECORD_EXPIRY = "INSERT INTO tenure_failure (id, fence, record) VALUES (:id, :fence, :record) ON CONFLICT DO NOTHING"
# The traces of a settlement without an answer. A job that waits is a trace of a return only: after an ack or an abandon
# that the database did not apply, the reaper puts the job back with the same fence.
_ENDED = "SELECT key, fence FROM tenure_outcome WHERE key IN :keys AND owner = :owner"
_DEAD = "SELECT key, fence FROM tenure_dead WHERE key IN :keys AND owner = :owner"
_RETURNED = f"""
{_ENDED}
UNION ALL SELECT key, fence FROM tenure_ready
    WHERE queue IN :queues AND rank IN :ranks AND key >= :first AND key <= :last AND key IN :keys
UNION ALL SELECT key, fence FROM tenure_delayed WHERE key IN :keys
UNION ALL SELECT key, fence FROM tenure_parked WHERE key IN :keys
"""
TRACES: dict[type, str] = {Ack: _ENDED, Abandon: _DEAD, Nack: _RETURNED, Park: _RETURNED}


class SqlBackend(Backend):
    """The verbs; the parts work on the same database through the same dialect."""

    def __init__(self, dialect: Dialect, server: ServerInfo | None = None, file: DatabaseFile | None = None) -> None:
        self._dialect = dialect
        self._owner = secrets.token_hex(8)
        self._was_busy = False
        self._settlements = SqlSettlements(dialect, self._owner)
        self.jobs = jobs = SqlJobs(dialect)
        self.recent = SqlRecentJobs(dialect)
        self.payloads = SqlPayloads(dialect, jobs)
        self.queues = SqlQueueCounts(dialect)
        self.dead_letters = SqlDeadLetters(dialect)
        self.control = SqlControl(dialect, self._owner)
        self.ends = SqlEnds(dialect)
        self.workers = SqlWorkers(dialect)
        self.stats = SqlStats(dialect)
        self.guards = guards = SqlGuards(dialect)
        self.parking = SqlParking(guards, self._settlements)
        self.unique = guards
        self.ledger = SqlLedger(dialect)
        self.archive = SqlArchive(dialect)
        self.audit = SqlAuditLog(dialect)
        self.transactions = SqlTransactions(dialect)
        self.schema: SqlSchema = SqlSchema(dialect)
        self.server = server
        self.file = file

    def put(self, messages: Sequence[Message]) -> list[str]:
        return self._dialect.put(messages) if messages else []

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        # A worker that just got jobs claims again at once: asking for work first would cost a query.
        grant = Grant(self._owner, seconds)
        may_have_work = self._was_busy or not self._dialect.until_work(queues)
        leases = self._dialect.claim(queues, limit, grant) if may_have_work else []
        if not leases and wait:
            leases = self._wait_and_claim(queues, limit, grant, time.monotonic() + wait)
        self._was_busy = bool(leases)
        return leases

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settlements.ack(verdicts)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settlements.apply(verdicts, self._dialect.nack)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settlements.apply(verdicts, self._dialect.abandon)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        mine = [lease for lease in leases if lease.owner == self._owner]
        expand_leases(self._dialect, mine)
        held = self._dialect.renew(mine, Grant(self._owner, seconds)) if mine else set()
        return [lease for lease in leases if lease.owner != self._owner or (lease.id, lease.fence) not in held]

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        reaped: list[ReapedLease] = []
        for queue in queues:
            while expired := self._dialect.expire(queue, _REAP_BATCH, suspect_after):
                reaped += [ReapedLease(row.id, queue, row.vanished == SUSPECT) for row in expired]
                self._record_expiries(expired)
        return reaped

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return has_suspects(self._dialect, queues)

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        return lease_suspect(self._dialect, queues, Grant(self._owner, seconds))

    def close(self) -> None:
        self._dialect.close()

    def _record_expiries(self, expired: Sequence[Expired]) -> None:
        """After the transaction: if this process dies in between, only these records are missing."""
        now = self._dialect.now()

        def record(rows: Rows) -> None:
            for row in expired:
                failure = from_expiry(now, row.attempts + 1, crashed=row.vanished == SUSPECT)
                rows(RECORD_EXPIRY, {"id": row.id, "fence": row.fence, "record": msgspec.json.encode(failure).decode()})

        self._dialect.transact_volatile(record)

    def _wait_and_claim(self, queues: Sequence[str], limit: int, grant: Grant, give_up: float) -> list[Lease]:
        """Claim as soon as a job can be leased; if other workers are faster, wait for the next one."""
        pause = _LOST_RACE_SECONDS
        with self._dialect.watch(queues) as wait_for:
            while (left := give_up - time.monotonic()) > 0:
                soonest = self._dialect.until_work(queues)
                if soonest and not wait_for(min(left, soonest)):
                    continue
                if leases := self._dialect.claim(queues, limit, grant):
                    return leases
                if not soonest:  # a job is visible until the transaction that claims it has ended
                    wait_for(min(left, pause))
                    pause *= 2
        return []


def migrated(backend: SqlBackend) -> SqlBackend:
    """The backend after the missing migrations; closed if its database cannot be used."""
    try:
        backend.schema.migrate()
    except BaseException:
        backend.close()
        raise
    return backend


class SqlParking:
    """Lets jobs wait for guards; leases are settled as by the other verbs."""

    def __init__(self, guards: SqlGuards, settlements: "SqlSettlements") -> None:
        self._guards = guards
        self._settlements = settlements
        self.wake = guards.wake
        self.waiters = guards.waiters

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settlements.apply(verdicts, self._guards.park)


class SqlTransactions:
    """Puts messages on a connection of the caller, in the caller's transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def put(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        raw = driver_connection(connection, self._dialect.name, self._dialect.location)
        return self._dialect.put_on(raw, messages, wake) if messages else []

    async def aput(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        found = await async_connection(connection, self._dialect.name, self._dialect.location)
        return await self._dialect.put_on_async(found, messages, wake) if messages else []

    def holders(self, connection: Any, uniques: Sequence[str]) -> dict[str, str]:
        raw = driver_connection(connection, self._dialect.name, self._dialect.location)
        parameter = "?" if self._dialect.name == "sqlite" else "%s"
        found: dict[str, str] = {}
        with closing(raw.cursor()) as cursor:
            for unique in uniques:
                cursor.execute(f"SELECT id FROM tenure_job WHERE only_one = {parameter}", (unique,))
                for row in cursor.fetchall():
                    found[unique] = first_column(row)
        return found

    async def aholders(self, connection: Any, uniques: Sequence[str]) -> dict[str, str]:
        found = await async_connection(connection, self._dialect.name, self._dialect.location)
        return await self._dialect.holders_on_async(found, uniques) if uniques else {}

    def wake(self, queues: Sequence[str]) -> None:
        if self._dialect.name == "postgresql":  # on SQLite workers see every write, on MySQL they poll
            self._dialect.transact_volatile(lambda rows: self._dialect.wake_workers(rows, queues))


class SqlSettlements:
    """Settles the leases of one owner, and recognises settlements that the database applied without an answer."""

    def __init__(self, dialect: Dialect, owner: str) -> None:
        self._dialect = dialect
        self._owner = owner
        self._unconfirmed: set[Pair] = set()

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle(verdicts, self._ack)

    def apply(self, verdicts: Sequence[V], apply: Callable[[str, Sequence[V]], set[Pair]]) -> list[Lease]:
        """Apply verdicts that return or bury jobs."""

        def apply_to_rows(owner: str, verdicts: Sequence[V]) -> set[Pair]:
            expand_leases(self._dialect, [verdict.lease for verdict in verdicts])
            return apply(owner, verdicts)

        return self._settle(verdicts, apply_to_rows)

    def _ack(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        """End jobs; return the leases that were held. Members whose batch is gone are acked as rows."""
        members = [v for v in verdicts if v.lease.batch is not None and v.lease.token in v.lease.batch.left]
        held = self._ack_members(owner, members) if members else set()
        if len(held) < len(verdicts):
            others = [v for v in verdicts if (v.lease.id, v.lease.fence) not in held]
            if in_batches := [v.lease for v in others if v.lease.batch is not None]:
                expand_leases(self._dialect, in_batches)
            held |= self._dialect.ack(owner, others)
        return held

    def _ack_members(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        """End members of batches; without an answer, or when its batch is gone, a member is not acked so again."""
        counts = Counter([v.lease.batch.key for v in verdicts])
        batches: dict[int, LeaseBatch] = {v.lease.batch.key: v.lease.batch for v in verdicts}
        ended = [key for key, batch in batches.items() if counts[key] == len(batch.left)]
        held: set[int] = set()
        try:
            held = self._dialect.ack_members(owner, verdicts, sorted(batches), sorted(ended))
        finally:
            for key in batches.keys() - held:
                batches[key].left.clear()
        settled = verdicts if len(held) == len(batches) else [v for v in verdicts if v.lease.batch.key in held]
        for verdict in settled:
            verdict.lease.batch.left.discard(verdict.lease.token)
        return {(v.lease.id, v.lease.fence) for v in settled}

    def _settle(self, verdicts: Sequence[V], apply: Callable[[str, Sequence[V]], set[Pair]]) -> list[Lease]:
        """Apply the first verdict on each lease that is still held; return the other leases."""
        mine = {
            (verdict.lease.id, verdict.lease.fence): verdict
            for verdict in reversed(verdicts)
            if verdict.lease.owner == self._owner
        }
        firsts = list(reversed(mine.values()))
        try:
            held = apply(self._owner, firsts) if mine else set()
        except BackendUnavailable:  # the database may have applied it; the next call uses a new connection
            self._unconfirmed.update(mine)
            held = apply(self._owner, firsts)
        if self._unconfirmed:
            missing = [verdict.lease for pair, verdict in mine.items() if pair not in held]
            held |= self._applied_earlier(missing, TRACES[type(verdicts[0])])
            self._unconfirmed -= mine.keys()
        return _lost(verdicts, mine, held)

    def _applied_earlier(self, missing: Sequence[Lease], traces: str) -> set[Pair]:
        """Of the leases that are gone, those that an earlier settlement without an answer did settle."""
        unconfirmed = {
            (lease.token, lease.fence): lease for lease in missing if (lease.id, lease.fence) in self._unconfirmed
        }
        if not unconfirmed:
            return set()
        keys = [key for key, _ in unconfirmed]
        places = {
            "keys": keys,
            "first": min(keys),
            "last": max(keys),
            "queues": sorted({lease.queue for lease in unconfirmed.values()}),
            "ranks": sorted({-lease.priority for lease in unconfirmed.values()}),
            "owner": self._owner,
        }
        found = self._dialect.read(traces, places)
        return {(unconfirmed[trace].id, trace[1]) for trace in found if trace in unconfirmed}


def _lost(verdicts: Sequence[V], mine: dict[Pair, V], held: set[Pair]) -> list[Lease]:
    if len(held) == len(verdicts):
        return []
    lost = []
    for verdict in verdicts:
        pair = (verdict.lease.id, verdict.lease.fence)
        if pair not in held or mine[pair] is not verdict:
            lost.append(verdict.lease)
    return lost


def claim_in_order(queues: Sequence[str], limit: int, claim: Callable[[str, int], list[T]]) -> list[T]:
    """Claim from one queue after the other."""
    granted: list[T] = []
    for queue in queues:
        granted += claim(queue, limit - len(granted))
        if len(granted) >= limit:
            break
    return granted


def report_orphans(queue: str, count: int) -> None:
    """Rows of a queue were deleted because their jobs are gone: another program deleted them, and they cannot run."""
    logger.error("queue %r had %d rows without a job; they are removed", queue, count)
