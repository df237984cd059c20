"""MysqlDialect: many hosts, many writers, the server's clock; a verb is one or two packets in a transaction."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeVar

import msgspec

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack
from tenure.backends.sql import statements as neutral
from tenure.backends.sql.dialect import (
    Claim,
    Expired,
    Grant,
    Pair,
    Row,
    Rows,
    fill,
    up_to_suspect,
)
from tenure.backends.sql.floors import BEGINNING, Floors, Place
from tenure.backends.sql.guarding import apply, changes_of
from tenure.backends.sql.mysql import statements as sql
from tenure.backends.sql.mysql.putting import store, store_in
from tenure.backends.sql.mysql.rows import Held, Ready
from tenure.backends.sql.mysql.server import Server
from tenure.backends.sql.mysql.session import Session, numbers
from tenure.backends.sql.mysql.sessions import Sessions
from tenure.backends.sql.mysql.steps import drop_ready, keep_failures, lease_of
from tenure.backends.sql.polling import Polling
from tenure.backends.sql.steering import end
from tenure.backends.upkeep import Fact
from tenure.clock import MICROSECOND, Clock, SystemClock

T = TypeVar("T")
V = TypeVar("V", Ack, Nack, Abandon)
_PROMOTE_BATCH = 1000  # a flood that falls due at one instant is promoted over several claims, none of them long


class MysqlDialect:
    """What the server rolled back is tried again."""

    name = "mysql"
    schema_exists = sql.SCHEMA_EXISTS
    index_names = sql.INDEX_NAMES
    replay_jobs = sql.REPLAY_JOBS
    reserve_guards: str | None = sql.RESERVE_GUARDS
    keep_guards = sql.KEEP_GUARDS
    keep_records = sql.KEEP_RECORDS

    def __init__(self, server: Server, clock: Clock) -> None:
        self._sessions = Sessions(server, self._now)
        self._floors = Floors()
        self._clock = None if isinstance(clock, SystemClock) else clock  # one that is not the host's is a test's
        self.place = server.place

    def now(self) -> int:
        return int(self._sessions.ask(lambda session: session.send(f"SELECT {self._now()}"))[0][0][0])

    def put(self, messages: Sequence[Message]) -> list[str]:
        self._floors.drop(*{message.queue for message in messages})
        again = chain([False], repeat(True))
        stored, was_cut = self._sessions.tried_transaction(
            lambda session: store(session, messages, secrets.randbits(62), again=next(again))
        )
        if was_cut:  # the first try may have stored them: what is known by now counts
            stored |= {id for (id,) in self.read(neutral.KNOWN, {"ids": [message.id for message in messages]})}
        return list(dict.fromkeys(message.id for message in messages if message.id in stored))

    def put_in(self, raw: Any, messages: Sequence[Message], wake: bool) -> list[str]:  # noqa: ARG002 - nobody to wake
        stored = store_in(raw, messages, secrets.randbits(62), self._now())
        return list(dict.fromkeys(message.id for message in messages if message.id in stored))

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        def put(session: Session) -> None:
            session.send(sql.BEGIN)
            if messages := choose(session.neutral):
                store(session, messages, secrets.randbits(62))

        self._floors = Floors()
        self._sessions.transaction(put, again=False)

    def until_work(self, queues: Sequence[str]) -> float:
        def look(session: Session) -> list[Row]:
            parts = [session.fill(sql.UNTIL_WORK, queue=session.quote(queue)) for queue in queues]
            return session.send(" UNION ALL ".join(parts))[0]

        rows = self._sessions.ask(look)
        if any(ready for ready, _ in rows):
            return 0.0
        waits = [max(0.0, int(wait) / MICROSECOND) for _, wait in rows if wait is not None]
        return min(waits, default=float("inf"))

    def watch(self) -> Polling:
        return Polling()

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        ends = [sql.COMMIT] if len(queues) == 1 else []  # with several queues all is claimed, or nothing

        def take(session: Session) -> list[Lease]:
            return fill(queues, limit, partial(self._claim_from, session, grant, ends))

        return self._sessions.transaction(take)

    def archive(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        def plan(session: Session, held: list[tuple[Held, Ack]]) -> list[str]:
            rows = [(*row.ended(v.state), owner, v.seconds, v.reason, v.output, _run(v)) for row, v in held]
            keys = numbers(row.key for row, _ in held)
            return [
                session.rows(sql.ARCHIVE, sql.ARCHIVE_ROW, rows),
                session.fill(sql.DROP_LEASES, keys=keys),
                session.fill(sql.DROP_JOBS, keys=keys),
            ]

        return self._settle(owner, verdicts, plan)

    def give_back(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        def plan(session: Session, held: list[tuple[Held, Nack]]) -> list[str]:
            steps = [session.fill(sql.DROP_LEASES, keys=numbers(row.key for row, _ in held))]
            ready = [row.back(v.charge) for row, v in held if v.delay <= 0]
            if ready:
                steps.append(session.rows(sql.READY, sql.READY_ROW, ready))
            for row, v in held:
                if v.delay > 0:
                    shape = sql.DELAYED_ROW.replace("{delay}", str(round(v.delay * MICROSECOND)))
                    steps.append(session.rows(sql.DELAYED, shape, [row.back(v.charge)]))
            return [*steps, *keep_failures(session, [v for _, v in held])]

        self._floors.drop(*{verdict.lease.queue for verdict in verdicts})
        return self._settle(owner, verdicts, plan)

    def bury(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        def plan(session: Session, held: list[tuple[Held, Abandon]]) -> list[str]:
            keys = numbers(row.key for row, _ in held)
            return [
                *(
                    session.fill(sql.BURY, int(v.charge == "attempt"), int(v.charge == "crash"), v.reason, row.key)
                    for row, v in held
                ),
                *keep_failures(session, [v for _, v in held]),
                session.fill(sql.DROP_LEASES, keys=keys),
                session.fill(sql.DROP_JOBS, keys=keys),
            ]

        return self._settle(owner, verdicts, plan)

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        def extend(session: Session) -> set[Pair]:
            held = _held(session, grant.owner, leases)
            pairs = {(row.id, row.fence) for row in held} & {(lease.id, lease.fence) for lease in leases}
            keys = [row.key for row in held if (row.id, row.fence) in pairs]
            if keys:
                length = round(grant.seconds * MICROSECOND)
                session.send(session.fill(sql.RENEW, keys=numbers(keys), length=length), sql.COMMIT)
            return pairs

        return self._sessions.transaction(extend)

    def expire(self, queue: str, limit: int) -> list[Expired]:
        def give_back(session: Session) -> list[Expired]:
            late = session.fill(sql.HELD_LATE, queue=session.quote(queue), limit=limit)
            held = [Held(*row) for row in session.send(sql.BEGIN, late)[1]]
            if held:
                session.send(
                    session.fill(sql.DROP_LEASES, keys=numbers(row.key for row in held)),
                    session.rows(sql.READY, sql.READY_ROW, [row.reaped() for row in held]),
                )
                self._end(session, held)
            return [Expired(row.key, row.id, bool(row.suspect)) for row in held]

        expired = self._sessions.transaction(give_back)
        if expired:
            self._floors.drop(queue)
        return expired

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self._sessions.ask(lambda session: session.neutral(statement, parameters))

    def transact(self, work: Callable[[Rows], T]) -> T:
        self._floors = Floors()  # what people replay comes back anywhere
        return self.hold(work)

    def hold(self, work: Callable[[Rows], T]) -> T:
        def whole(session: Session) -> T:
            session.send(sql.BEGIN)
            return work(session.neutral)

        return self._sessions.transaction(whole, again=False)

    def time_in(self, rows: Rows) -> int:
        return self._clock.now() if self._clock else int(rows(f"SELECT {sql.NOW}", {})[0][0])

    def tell(self, rows: Rows, queues: Iterable[str]) -> None:  # noqa: ARG002 - elsewhere others are told
        """There is nobody to tell: workers look."""
        self._floors.drop(*queues)

    def migrating(self) -> AbstractContextManager[Rows]:
        return self._sessions.alone()

    def facts(self) -> list[Fact]:
        version, flush = self._sessions.ask(lambda session: session.send(sql.FACTS))[0][0]
        durable = int(flush) == 1
        promise = "a job is on the server's disk before enqueue returns" if durable else "the last jobs may be lost"
        return [
            Fact("server", f"{'MariaDB' if 'MariaDB' in version else 'MySQL'} {version}"),
            Fact("durability", f"{promise} (innodb_flush_log_at_trx_commit={flush})", warning=not durable),
            Fact("wake-ups", "by looking every 25 ms"),
        ]

    def close(self) -> None:
        self._sessions.close()

    def _claim_from(
        self, session: Session, grant: Grant, ends: list[str], queue: str, limit: int, alone: bool
    ) -> Claim[Lease]:
        floor, started = self._floors.below(queue), time.monotonic()
        name = session.quote(queue)
        rows = self._pick(session, queue, limit, floor)
        if not rows and floor != BEGINNING:
            floor = BEGINNING
            rows = self._pick(session, queue, limit, floor)
        taken, met_suspect = up_to_suspect(rows, alone)
        if len(taken) == limit:
            self._floors.raise_to(queue, (taken[-1].rank, taken[-1].key), started, floor == BEGINNING)
        else:
            self._floors.drop(queue)
        if not taken:
            return Claim([], met_suspect)
        keys = numbers(row.key for row in taken)
        tail = session.fill(sql.GRANT_TAIL, grant.owner, length=round(grant.seconds * MICROSECOND))
        leased = [
            f"({row.key},{name},{row.rank},{row.attempts},{row.crashes},{row.fence + 1},{row.suspect},{tail})"
            for row in taken
        ]
        bodies = session.send(
            *drop_ready(session, name, taken),
            sql.GRANT.replace("{rows}", ",".join(leased)),
            session.fill(sql.BODIES, keys=keys),
            *ends,
        )[-1 - len(ends)]
        jobs = {key: rest for key, *rest in bodies}
        return Claim([lease_of(queue, grant.owner, row, *jobs[row.key]) for row in taken], met_suspect)

    def _pick(self, session: Session, queue: str, limit: int, floor: Place) -> list[Ready]:
        """Lock what may be leased; what is due takes its place first."""
        name = session.quote(queue)
        above = "" if floor == BEGINNING else sql.FLOOR.format(rank=floor[0], key=floor[1])
        pick = session.fill(sql.PICK, queue=name, floor=above, limit=limit)
        _, ((is_late,),), rows = session.send(sql.BEGIN, session.fill(sql.LATE, queue=name), pick)
        if is_late:
            late = session.fill(sql.PICK_DELAYED, queue=name, limit=_PROMOTE_BATCH)
            due = [Ready(*row) for row in session.send(late)[0]]
            if due:
                waiting = [(queue, row.rank, row.key, *row[2:]) for row in due]
                session.send(
                    session.rows(sql.READY, sql.READY_ROW, waiting),
                    session.fill(sql.DROP_DELAYED, keys=numbers(row.key for row in due)),
                )
            (rows,) = session.send(session.fill(sql.PICK, queue=name, floor="", limit=limit))
        return [Ready(*row) for row in rows]

    def _settle(
        self, owner: str, verdicts: Sequence[V], plan: Callable[[Session, list[tuple[Held, V]]], list[str]]
    ) -> set[Pair]:
        def settle(session: Session) -> set[Pair]:
            by_pair = {(verdict.lease.id, verdict.lease.fence): verdict for verdict in verdicts}
            found = _held(session, owner, [verdict.lease for verdict in verdicts])
            held = [(row, by_pair[row.id, row.fence]) for row in found if (row.id, row.fence) in by_pair]
            pairs = {(row.id, row.fence) for row, _ in held}
            changes = changes_of(verdicts, pairs)
            if held:
                more = changes or any(row.asked for row, _ in held)
                session.send(*plan(session, held), *([] if more else [sql.COMMIT]))
            if changes:
                apply(self, session.neutral, changes)
            self._end(session, [row for row, _ in held])
            return pairs

        return self._sessions.transaction(settle, again=False)

    def _end(self, session: Session, held: list[Held]) -> None:
        """What waits again although somebody cancelled it ends."""
        cancelled = [row.key for row in held if row.asked]
        if cancelled:
            end(session.neutral, cancelled, self.time_in(session.neutral))

    def _now(self) -> str:
        return str(self._clock.now()) if self._clock else sql.NOW


def _held(session: Session, owner: str, leases: Sequence[Lease]) -> list[Held]:
    keys = numbers(lease.token for lease in leases)
    rows = session.send(sql.BEGIN, session.fill(sql.HELD_KEYS, keys=keys, owner=session.quote(owner)))[1]
    return [Held(*row) for row in rows]


def _run(verdict: Ack) -> str | None:
    return msgspec.json.encode(verdict.run).decode() if verdict.run else None
