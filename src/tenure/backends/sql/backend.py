"""SqlBackend: the eight verbs on split tables.

A lease is taken by moving rows from ready to lease in one transaction, and lost when its row is reaped.
`abandon` moves the body to the dead letters in the same transaction. Order is strict: priority, then enqueue.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Reaped, Verdict
from tenure.backends.sql import migrations
from tenure.backends.sql.records import SqlRecords
from tenure.backends.sql.sqlite import statements as sql
from tenure.backends.sql.sqlite.database import Database
from tenure.backends.sql.sqlite.wakeup import open_wakeup
from tenure.backends.sql.steering import SqlSteering
from tenure.clock import MICROSECOND, Clock

Plan = list[tuple[str, dict[str, Any]]]
V = TypeVar("V", Ack, Nack, Abandon)
KEPT_FAILURES = 25
_REAP_BATCH = 500
_PROMOTE_BATCH = 1000  # a flood that falls due at one instant is promoted over several claims, none of them long
_LOOKS_AFTER_WRITE = 30
_NONE = "[]"


class _Row(Struct, array_like=True, gc=False):
    """One claimed row, as CLAIM writes it."""

    key: int
    id: str
    rank: int
    attempts: int
    crashes: int
    fence: int
    suspect: bool
    due: int
    size: int


class _Claim(NamedTuple):
    """What one queue granted, and whether a suspect was met: nothing behind it may go first or along."""

    queue: str
    rows: list[_Row]
    bodies: bytes
    met_suspect: bool


class _Expired(Struct, array_like=True, gc=False):
    key: int
    id: str
    suspect: bool


_to_json = msgspec.json.Encoder().encode
_rows = msgspec.json.Decoder(list[_Row], strict=False).decode
_expired = msgspec.json.Decoder(list[_Expired], strict=False).decode
_pairs = msgspec.json.Decoder(list[tuple[str, int]]).decode


def _text(value: Any) -> str:
    return _to_json(value).decode()


class SqlBackend:
    """The hot verbs, and by delegation what `records`, `steering` and `migrations` can do on the same database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._was_busy = False
        self.steps_taken: list[str] = []
        self.key_path = database.path.with_name(f"{database.path.name}.key")
        records = SqlRecords(database, clock)
        self.counts, self.find = records.counts, records.find
        self.dead, self.replay, self.discard = records.dead, records.replay, records.discard
        self.greet, self.part, self.workers = records.greet, records.part, records.workers
        self.trim = records.trim
        self._steering = steering = SqlSteering(database, clock, self._owner)
        self.cancel, self.asked_to_stop, self.note_progress = (
            steering.cancel,
            steering.asked_to_stop,
            steering.note_progress,
        )

    def put(self, messages: Sequence[Message]) -> list[str]:
        now = self._clock.now()
        with self._database.write() as tx:
            batch = {"now": now, "first": tx.execute(sql.NEXT_KEY, {"now": now}).fetchone()[0]}
            rows = [
                (key, m.id, m.queue, -m.priority, m.handler, m.name, now, _due(m, now), m.body)
                for key, m in enumerate(messages, batch["first"])
            ]
            stored = tx.executemany(sql.PUT_JOB, rows).rowcount
            tx.execute(sql.PUT_READY, batch)
            if any(row[7] > now for row in rows):
                tx.execute(sql.PUT_DELAYED, batch)
            if stored == len(rows):
                return [m.id for m in messages]
            return [id for (id,) in tx.execute(sql.PUT_IDS, batch)]

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        # Where there was work there is more: looking first would cost a busy worker a turn at the database.
        leases = self._claim(queues, limit, seconds) if self._was_busy or self._has_work(queues) else []
        if not leases and wait and self._wait_for_work(queues, wait):
            leases = self._claim(queues, limit, seconds)
        self._was_busy = bool(leases)
        return leases

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        def archive(held: Sequence[Ack]) -> Plan:
            items = [(v.lease.token, v.state, v.seconds, v.reason, v.output) for v in held]
            return [(sql.ARCHIVE, {"items": _text(items), "now": self._clock.now()}), *_endings(held)]

        return self._settle(verdicts, archive)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        def give_back(held: Sequence[Nack]) -> Plan:
            now = self._clock.now()
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
            batch = {"items": _text(items), "now": now}
            return [(sql.RETURN_READY, batch), (sql.RETURN_DELAYED, batch), *_failures(held), _unlease(held)]

        return self._settle(verdicts, give_back)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        def bury(held: Sequence[Abandon]) -> Plan:
            items = [(v.lease.token, v.reason, v.charge == "attempt", v.charge == "crash") for v in held]
            now = self._clock.now()
            return [(sql.BURY, {"items": _text(items), "now": now}), *_failures(held), *_endings(held)]

        return self._settle(verdicts, bury)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        with self._database.write() as tx:
            held, _ = self._held(tx, self._named(leases))
            keys = _text([lease.token for lease in leases if (lease.id, lease.fence) in held])
            tx.execute(sql.RENEW, {"keys": keys, "expires": self._clock.now() + round(seconds * MICROSECOND)})
        return [lease for lease in leases if (lease.id, lease.fence) not in held]

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        reaped: list[Reaped] = []
        for queue in queues:
            while batch := self._reap(queue):
                reaped += batch
        return reaped

    def close(self) -> None:
        self._database.close()

    def schema_version(self) -> tuple[int, int]:
        return migrations.stored(self._database), migrations.newest("sqlite")

    def migrate(self) -> list[str]:
        taken = migrations.migrate(self._database, "sqlite")
        self.steps_taken += taken
        return taken

    def _has_work(self, queues: Sequence[str]) -> bool:
        now = self._clock.now()
        return any(self._database.read(sql.ANY_READY, {"queue": queue, "now": now})[0][0] for queue in queues)

    def _wait_for_work(self, queues: Sequence[str], wait: float) -> bool:
        """Until there is something to lease, a delayed job falls due, or the wait is over."""
        give_up = time.monotonic() + wait
        wakeup = open_wakeup(self._database.log)
        try:
            while (left := give_up - time.monotonic()) > 0:
                if self._has_work(queues):
                    return True
                if wakeup.wait(min(left, self._until_due(queues))) and self._seen_soon(queues):
                    return True
            return self._has_work(queues)
        finally:
            wakeup.close()

    def _seen_soon(self, queues: Sequence[str]) -> bool:
        """A write is reported before its commit shows: look again for as long as a commit may take."""
        for _ in range(_LOOKS_AFTER_WRITE):
            if self._has_work(queues):
                return True
            time.sleep(0.001)
        return False

    def _until_due(self, queues: Sequence[str]) -> float:
        now = self._clock.now()
        dues = [self._database.read(sql.NEXT_DUE, {"queue": queue})[0][0] for queue in queues]
        waits = [(due - now) / MICROSECOND for due in dues if due is not None]
        return max(0.0, min(waits)) if waits else 60.0

    def _claim(self, queues: Sequence[str], limit: int, seconds: float) -> list[Lease]:
        claims: list[_Claim] = []
        with self._database.write() as tx:
            left = limit
            for queue in queues:
                claim = self._claim_from(tx, queue, left, seconds, alone=left == limit)
                claims.append(claim)
                left -= len(claim.rows)
                if claim.met_suspect or not left:
                    break
        return [lease for claim in claims for lease in self._leases(claim)]

    def _claim_from(self, tx: Any, queue: str, limit: int, seconds: float, alone: bool) -> _Claim:
        now = self._clock.now()
        wanted = {"queue": queue, "limit": limit, "now": now, "most": _PROMOTE_BATCH}
        found, bodies, something_is_due = tx.execute(sql.CLAIM, wanted).fetchone()
        if something_is_due:
            tx.execute(sql.PROMOTE, wanted)
            tx.execute(sql.PROMOTED, wanted)
            found, bodies, _ = tx.execute(sql.CLAIM, wanted).fetchone()
        rows, met_suspect = _up_to_suspect(_rows(found), alone)
        if rows:
            claim = {"queue": queue, "rank": rows[-1].rank, "key": rows[-1].key}
            tx.execute(sql.GRANT, {**claim, "owner": self._owner, "expires": now + round(seconds * MICROSECOND)})
            tx.execute(sql.GRANTED, claim)
        return _Claim(queue, rows, bodies, met_suspect)

    def _leases(self, claim: _Claim) -> list[Lease]:
        leases = []
        queue, bodies = claim.queue, claim.bodies
        start = 0
        for row in claim.rows:
            end = start + row.size
            leases.append(
                Lease(
                    id=row.id,
                    queue=queue,
                    body=bodies[start:end],
                    owner=self._owner,
                    fence=row.fence,
                    attempts=row.attempts,
                    crashes=row.crashes,
                    suspect=row.suspect,
                    priority=-row.rank,
                    due=row.due,
                    token=row.key,
                )
            )
            start = end
        return leases

    def _settle(self, verdicts: Sequence[V], plan: Callable[[Sequence[V]], Plan]) -> list[Lease]:
        """Apply verdicts whose lease is still held, and name the other leases; what somebody cancelled ends.

        The statements are made up before the database is taken: nearly always every lease is held.
        """
        steps = plan(verdicts)
        leases = [verdict.lease for verdict in verdicts]
        named = self._named(leases)
        with self._database.write() as tx:
            held, asked = self._held(tx, named)
            mine, lost = _split(verdicts, held)
            for statement, parameters in steps if not lost else plan(mine) if mine else ():
                tx.execute(statement, parameters)
            if asked != _NONE:
                self._steering.end(tx, asked)
        return lost

    def _named(self, leases: Sequence[Lease]) -> dict[str, str]:
        return {"keys": _text([lease.token for lease in leases if lease.owner == self._owner]), "owner": self._owner}

    def _held(self, tx: Any, named: dict[str, str]) -> tuple[set[tuple[str, int]], str]:
        """Id and fence of the leases that are ours, and the keys of those that were asked to stop.

        Ids, because a key may be used again once its job has ended.
        """
        found, asked = tx.execute(sql.HELD, named).fetchone()
        return set(_pairs(found)), asked

    def _reap(self, queue: str) -> list[Reaped]:
        moment = {"queue": queue, "now": self._clock.now(), "limit": _REAP_BATCH}
        if self._database.read(sql.EXPIRED, {**moment, "limit": 1})[0][0] == _NONE:
            return []
        with self._database.write() as tx:
            found, asked = tx.execute(sql.EXPIRED, moment).fetchone()
            expired = _expired(found)
            keys = {"keys": _text([row.key for row in expired])}
            tx.execute(sql.RETURN_EXPIRED, keys)
            tx.execute(sql.DROP_LEASES, keys)
            if asked != _NONE:
                self._steering.end(tx, asked)
        return [Reaped(row.id, queue, row.suspect) for row in expired]


def _due(message: Message, now: int) -> int:
    return message.due or (now + round(message.delay * MICROSECOND) if message.delay else now)


def _up_to_suspect(rows: list[_Row], alone: bool) -> tuple[list[_Row], bool]:
    """The rows before the first suspect, or that one by itself, so that its fate is known to be its own."""
    for index, row in enumerate(rows):
        if row.suspect:
            return rows[: index or alone], True
    return rows, False


def _split(verdicts: Sequence[Any], held: set[tuple[str, int]]) -> tuple[list[Any], list[Lease]]:
    """The verdicts to apply, one for each lease that is held, and the leases of the others."""
    mine, lost, left = [], [], set(held)
    for verdict in verdicts:
        pair = (verdict.lease.id, verdict.lease.fence)
        if pair in left:
            left.remove(pair)
            mine.append(verdict)
        else:
            lost.append(verdict.lease)
    return mine, lost


def _failures(verdicts: Sequence[Nack | Abandon]) -> Plan:
    """Steps that keep what went wrong, the newest so many."""
    failures = [(v.lease.id, v.lease.fence, v.failure) for v in verdicts if v.failure]
    if not failures:
        return []
    trimmed = {"items": _text([item[:2] for item in failures]), "keep": KEPT_FAILURES}
    return [(sql.KEEP_FAILURES, {"items": _text(failures)}), (sql.TRIM_FAILURES, trimmed)]


def _unlease(verdicts: Sequence[Verdict]) -> tuple[str, dict[str, Any]]:
    return sql.DROP_LEASES, {"keys": _text([verdict.lease.token for verdict in verdicts])}


def _endings(verdicts: Sequence[Verdict]) -> Plan:
    """Steps that take a job out of the live tables."""
    dropped = _unlease(verdicts)
    return [dropped, (sql.DROP_JOBS, dropped[1])]
