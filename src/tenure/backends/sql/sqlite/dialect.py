"""SqliteDialect: one host, one writer at a time, and the host's own clock."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Verdict
from tenure.backends.sql.dialect import (
    KEPT_FAILURES,
    Claim,
    Expired,
    Grant,
    Pair,
    Row,
    Rows,
    failures,
    fill,
    up_to_suspect,
)
from tenure.backends.sql.guarding import apply, changes_of
from tenure.backends.sql.sqlite import statements as sql
from tenure.backends.sql.sqlite.columns import (
    Granted,
    are_plain_runs,
    due_of,
    expired_rows,
    granted,
    key_list,
    lease_of,
    pairs_of,
    ready_rows,
    to_text,
)
from tenure.backends.sql.sqlite.database import Database
from tenure.backends.sql.sqlite.wakeup import Wakeup, open_wakeup
from tenure.backends.sql.steering import end
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError

Plan = list[tuple[str, dict[str, Any]]]
T = TypeVar("T")
V = TypeVar("V", Ack, Nack, Abandon)
_PROMOTE_BATCH = 1000  # a flood that falls due at one instant is promoted over several claims, none of them long


class SqliteDialect:
    """Batches go in as one JSON text; a transaction holds the write lock of the file."""

    name = "sqlite"
    schema_exists = sql.SCHEMA_EXISTS
    index_names = sql.INDEX_NAMES
    replay_jobs = sql.REPLAY_JOBS
    reserve_guards: str | None = None
    keep_guards = sql.KEEP_GUARDS
    keep_records = sql.KEEP_RECORDS

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self.place = str(database.path)
        self.now = clock.now

    def put(self, messages: Sequence[Message]) -> list[str]:
        with self._database.write() as tx:
            return _put(tx, messages, self.now())

    def put_in(self, raw: Any, messages: Sequence[Message], wake: bool) -> list[str]:  # noqa: ARG002 - the write is seen
        cursor = raw.cursor()
        cursor.row_factory = None
        files = {name: file for _, name, file in cursor.execute("PRAGMA database_list")}
        if not files["main"] or not self._database.path.samefile(files["main"]):
            raise BackendError(
                f"this connection is to {files['main'] or 'memory'!r}, and jobs are kept in {self.place!r}: "
                "to be committed together both must be in one file"
            )
        alone = not raw.in_transaction and raw.isolation_level is None
        if not raw.in_transaction:
            cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("SAVEPOINT tenure")
        try:
            stored = _put(cursor, messages, self.now())
        except BaseException:
            cursor.execute("ROLLBACK" if alone else "ROLLBACK TO tenure")  # nobody must commit a part
            raise
        cursor.execute("COMMIT" if alone else "RELEASE tenure")
        return stored

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        with self._database.write() as tx:
            if messages := choose(_rows_on(tx)):
                _put(tx, messages, self.now())

    def until_work(self, queues: Sequence[str]) -> float:
        soonest = float("inf")
        for queue in queues:
            ready, due = self._database.read(sql.UNTIL_WORK, {"queue": queue})[0]
            if ready:
                return 0.0
            if due is not None:
                soonest = min(soonest, max(0.0, (due - self.now()) / MICROSECOND))
        return soonest

    def watch(self) -> Wakeup:
        return open_wakeup(self._database.log)

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        """From several queues in one transaction: what one of them granted must not be lost by an error in the next."""
        with self._database.turn() if len(queues) == 1 else self._database.write() as tx:
            found = fill(queues, limit, partial(self._claim_from, tx, grant))
        return [lease_of(queue, row, body, grant.owner) for queue, row, body in found]

    def archive(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        if are_plain_runs(verdicts):
            held = ",".join([f"{v.lease.id} {v.lease.fence}" for v in verdicts])
            batch = self._batch({v.lease.token: v.run for v in verdicts}, verdicts)
            batch |= {"owner": owner, "held": held, "state": verdicts[0].state}
            if self._database.step(sql.ARCHIVE_RUNS.call, batch):
                return {(v.lease.id, v.lease.fence) for v in verdicts}

        def plan(held: Sequence[Ack]) -> Plan:
            items = [(v.lease.token, v.state, v.seconds, v.reason, v.output, v.run) for v in held]
            return [(sql.ARCHIVE.call, self._batch(items, held))]

        return self._settle(owner, verdicts, plan)

    def give_back(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        def plan(held: Sequence[Nack]) -> Plan:
            now = self.now()
            items = [
                (
                    v.lease.token,
                    now + round(v.delay * MICROSECOND),
                    v.charge == "attempt",
                    v.charge == "crash",
                    v.charge == "suspect",
                )
                for v in held
            ]
            return [*_failures(held), (sql.RETURN.call, self._batch(items, held))]

        return self._settle(owner, verdicts, plan)

    def bury(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        def plan(held: Sequence[Abandon]) -> Plan:
            items = [(v.lease.token, v.reason, v.charge == "attempt", v.charge == "crash") for v in held]
            return [*_failures(held), (sql.BURY.call, self._batch(items, held))]

        return self._settle(owner, verdicts, plan)

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        asked = _asked(grant.owner, leases)
        with self._database.write() as tx:
            held, _ = _held(tx, asked)
            keys = to_text([lease.token for lease in leases if (lease.id, lease.fence) in held])
            tx.execute(sql.RENEW, {"keys": keys, "expires": self.now() + round(grant.seconds * MICROSECOND)})
        return held

    def expire(self, queue: str, limit: int) -> list[Expired]:
        moment = {"queue": queue, "now": self.now(), "limit": limit}
        if self._database.read(sql.EXPIRED, {**moment, "limit": 1})[0][0] == "[]":
            return []
        with self._database.write() as tx:
            found, cancelled = tx.execute(sql.EXPIRED, moment).fetchone()
            expired = expired_rows(found)
            keys = {"keys": to_text([row.key for row in expired])}
            tx.execute(sql.RETURN_EXPIRED, keys)
            tx.execute(sql.DROP_LEASES, keys)
            self._end(tx, cancelled)
        return expired

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self._database.read(translated(statement), _bound(parameters))

    def transact(self, work: Callable[[Rows], T]) -> T:
        with self.migrating() as rows:
            return work(rows)

    def hold(self, work: Callable[[Rows], T]) -> T:
        """Who holds something dies with this host, so the disk is not waited for: 26 instead of 266 µs a job."""
        with self._database.write(is_durable=False) as tx:
            return work(_rows_on(tx))

    def time_in(self, rows: Rows) -> int:  # noqa: ARG002 - elsewhere the server is asked
        return self.now()

    def tell(self, rows: Rows, queues: Iterable[str]) -> None:
        """The write itself is seen."""

    @contextmanager
    def migrating(self) -> Iterator[Rows]:
        with self._database.write() as tx:
            yield _rows_on(tx)

    def close(self) -> None:
        self._database.close()

    def _claim_from(self, tx: Any, grant: Grant, queue: str, limit: int, alone: bool) -> Claim[Granted]:
        now = self.now()
        wanted = {"queue": queue, "limit": limit, "now": now, "most": _PROMOTE_BATCH}
        found, bodies, something_is_due = tx.execute(sql.CLAIM, wanted).fetchone()
        if something_is_due:
            if not tx.in_transaction:
                tx.execute(sql.BEGIN)
            tx.execute(sql.PROMOTE, wanted)
            tx.execute(sql.PROMOTED, wanted)
            found, bodies, _ = tx.execute(sql.CLAIM, wanted).fetchone()
        rows, met_suspect = up_to_suspect(ready_rows(found), alone)
        if rows:
            expires = now + round(grant.seconds * MICROSECOND)
            claimed = {
                "queue": queue,
                "rank": rows[-1].rank,
                "key": rows[-1].key,
                "keys": to_text([row.key for row in rows]),
            }
            tx.execute(sql.GRANT.call, {**claimed, "owner": grant.owner, "expires": expires})
        return Claim(granted(queue, rows, bodies), met_suspect)

    def _settle(self, owner: str, verdicts: Sequence[V], plan: Callable[[Sequence[V]], Plan]) -> set[Pair]:
        """The statements are made up before the database is taken: nearly always every lease is held."""
        steps = plan(verdicts)
        leases = [verdict.lease for verdict in verdicts]
        asked, pairs = _asked(owner, leases), {(lease.id, lease.fence) for lease in leases}
        with self._database.turn() as tx:
            held, cancelled = _held(tx, asked)
            if held != pairs:
                held &= pairs
                mine = [verdict for verdict in verdicts if (verdict.lease.id, verdict.lease.fence) in held]
                steps = plan(mine) if mine else []
            changes = changes_of(verdicts, held)
            if len(steps) > 1 or changes or cancelled != "[]":
                tx.execute(sql.BEGIN)
            for statement, parameters in steps:
                tx.execute(statement, parameters)
            if changes:
                apply(self, _rows_on(tx), changes)
            self._end(tx, cancelled)
        return held

    def _batch(self, items: Any, held: Sequence[Verdict]) -> dict[str, Any]:
        return {"items": to_text(items), "keys": to_text([verdict.lease.token for verdict in held]), "now": self.now()}

    def _end(self, tx: Any, cancelled: str) -> None:
        """What waits again although somebody cancelled it ends; `cancelled` is a JSON array of keys."""
        if cancelled != "[]":
            end(_rows_on(tx), key_list(cancelled), self.now())


def _put(tx: Any, messages: Sequence[Message], now: int) -> list[str]:
    batch = {"now": now, "first": tx.execute(sql.NEXT_KEY, {"now": now}).fetchone()[0]}
    rows = [
        (key, m.id, m.queue, -m.priority, m.handler, m.name, now, due_of(m, now), m.body, m.unique)
        for key, m in enumerate(messages, batch["first"])
    ]
    statement = sql.PUT_NEW if all(m.is_new for m in messages) else sql.PUT_JOB
    stored = tx.executemany(statement, rows).rowcount
    tx.execute(sql.PUT_READY, batch)
    if any(row[7] > now for row in rows):
        tx.execute(sql.PUT_DELAYED, batch)
    if stored == len(rows):
        return [m.id for m in messages]
    return [id for (id,) in tx.execute(sql.PUT_IDS, batch)]


def _asked(owner: str, leases: Sequence[Lease]) -> dict[str, str]:
    return {"keys": to_text([lease.token for lease in leases]), "owner": owner}


def _held(tx: Any, asked: dict[str, str]) -> tuple[set[Pair], str]:
    """What is held, and the keys of those that somebody cancelled.

    Ids, not keys, because a key may be used again once its job has ended and the clock was set back.
    """
    found, cancelled = tx.execute(sql.HELD, asked).fetchone()
    return set(pairs_of(found)), cancelled


def _failures(verdicts: Sequence[Nack | Abandon]) -> Plan:
    """Steps that keep what went wrong, the newest so many."""
    found = failures(verdicts)
    if not found:
        return []
    trimmed = {"items": to_text([item[:2] for item in found]), "keep": KEPT_FAILURES}
    return [(sql.KEEP_FAILURES, {"items": to_text(found)}), (sql.TRIM_FAILURES, trimmed)]


@lru_cache
def translated(statement: str) -> str:
    """A neutral statement in SQLite's words: the file has one writer, so nobody need be kept away."""
    return re.sub(r"IN :(\w+)", r"IN (SELECT value FROM json_each(:\1))", statement).replace(" FOR UPDATE", "")


def _rows_on(tx: Any) -> Rows:
    return lambda statement, parameters: tx.execute(translated(statement), _bound(parameters)).fetchall()


def _bound(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_text(value) if isinstance(value, list) else value for name, value in parameters.items()}
