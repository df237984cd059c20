"""PostgresDialect: many hosts, many writers, the server's clock."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeVar

import psycopg

from tenure.backends.contract import ON_REQUEST, Abandon, Ack, Lease, Message, Nack
from tenure.backends.sql import statements as neutral
from tenure.backends.sql.dialect import KEPT_FAILURES, Claim, Expired, Grant, Pair, Row, Rows, fill
from tenure.backends.sql.floors import BEGINNING, Floors
from tenure.backends.sql.guarding import apply, changes_of
from tenure.backends.sql.joining import first
from tenure.backends.sql.postgresql import statements as sql
from tenure.backends.sql.postgresql.arrays import number_array, text_array
from tenure.backends.sql.postgresql.columns import charges, key_of, lease_of, put_parameters, run_array
from tenure.backends.sql.postgresql.server import Server
from tenure.backends.sql.postgresql.sessions import Sessions
from tenure.backends.sql.postgresql.wakeup import Bell, Ears
from tenure.backends.upkeep import Fact
from tenure.clock import MICROSECOND, Clock, SystemClock

T = TypeVar("T")
_PROMOTE_BATCH = 1000  # a flood that falls due at one instant is promoted over several claims, none of them long


class PostgresDialect:
    """A verb is one statement; what the server rolled back is tried again."""

    name = "postgresql"
    schema_exists = sql.SCHEMA_EXISTS
    index_names = sql.INDEX_NAMES
    replay_jobs = sql.REPLAY_JOBS
    reserve_guards: str | None = sql.RESERVE_GUARDS
    keep_guards = sql.KEEP_GUARDS
    keep_records = sql.KEEP_RECORDS

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._sessions = Sessions(server)
        self._ears = Ears(server)
        self._bell = Bell()
        self._floors = Floors()
        # A clock other than the host's own is a test's: it is obeyed. Else the server's clock counts.
        self._moment = (lambda: None) if isinstance(clock, SystemClock) else clock.now
        self.place = server.place

    def now(self) -> int:
        return int(self._ask(sql.THE_TIME, {})[0][0])

    def put(self, messages: Sequence[Message]) -> list[str]:
        queues = {message.queue for message in messages}
        tell = [] if self._server.pooled else self._bell.due(queues)
        self._floors.drop(*queues)
        statements = chain([sql.put(messages)], repeat(sql.PUT))  # what is tried again may be known
        values = {**put_parameters(messages), "tell": text_array(tell), "now": self._moment()}
        rows, doubtful = self._sessions.run(lambda rows: rows(next(statements), values))
        stored = {id for (id,) in rows}
        if doubtful:  # the first try may have stored them: what is known by now counts
            stored |= {id for (id,) in self.read(neutral.KNOWN, {"ids": [message.id for message in messages]})}
        return list(dict.fromkeys(message.id for message in messages if message.id in stored))

    def put_in(self, raw: Any, messages: Sequence[Message], wake: bool) -> list[str]:
        tell = {message.queue for message in messages} if wake else ()
        values = {**put_parameters(messages), "tell": text_array(tell), "now": self._moment()}
        with raw.cursor() as cursor:
            cursor.execute(sql.put(messages), values)
            stored = {first(row) for row in cursor.fetchall()}
        return list(dict.fromkeys(message.id for message in messages if message.id in stored))

    def put_chosen(self, choose: Callable[[Rows], Sequence[Message]]) -> None:
        def put(rows: Rows) -> None:
            messages = choose(rows)
            if messages:
                queues = {message.queue for message in messages}
                tell = [] if self._server.pooled else self._bell.due(queues)
                rows(sql.PUT, {**put_parameters(messages), "tell": text_array(tell), "now": self._moment()})

        self.transact(put)

    def until_work(self, queues: Sequence[str]) -> float:
        ready, microseconds = self._ask(sql.UNTIL_WORK, {"queues": text_array(queues)})[0]
        if ready:
            return 0.0
        return float("inf") if microseconds is None else max(0.0, microseconds / MICROSECOND)

    def watch(self) -> Ears:
        return self._ears

    def claim(self, queues: Sequence[str], limit: int, grant: Grant) -> list[Lease]:
        leases = fill(queues, limit, partial(self._claim_from, grant))
        if leases:
            self._ears.busy()
        return leases

    def archive(self, owner: str, verdicts: Sequence[Ack]) -> set[Pair]:
        verdicts = sorted(verdicts, key=key_of)
        return self._settle(
            sql.ARCHIVE,
            verdicts,
            sql.ARCHIVE_NEW,
            owner=owner,
            states=text_array([v.state for v in verdicts]),
            seconds=number_array([v.seconds for v in verdicts]),
            reasons=text_array([v.reason for v in verdicts]),
            outputs=text_array([v.output for v in verdicts]),
            runs=run_array(verdicts),
        )

    def give_back(self, owner: str, verdicts: Sequence[Nack]) -> set[Pair]:
        verdicts = sorted(verdicts, key=key_of)
        self._floors.drop(*{verdict.lease.queue for verdict in verdicts})
        held = self._settle(
            sql.GIVE_BACK,
            verdicts,
            owner=owner,
            delays=number_array([round(v.delay * MICROSECOND) for v in verdicts]),
            suspects=number_array([int(v.charge == "suspect") for v in verdicts]),
            reason=ON_REQUEST,
            **charges(verdicts),
        )
        self._trim_failures(verdicts)
        return held

    def bury(self, owner: str, verdicts: Sequence[Abandon]) -> set[Pair]:
        verdicts = sorted(verdicts, key=key_of)
        reasons = text_array([v.reason for v in verdicts])
        held = self._settle(sql.BURY, verdicts, owner=owner, reasons=reasons, **charges(verdicts))
        self._trim_failures(verdicts)
        return held

    def renew(self, leases: Sequence[Lease], grant: Grant) -> set[Pair]:
        asked = sorted(leases, key=lambda lease: lease.token)
        rows = self._ask(
            sql.RENEW,
            {
                "keys": number_array([lease.token for lease in asked]),
                "fences": number_array([lease.fence for lease in asked]),
                "owner": grant.owner,
                "length": round(grant.seconds * MICROSECOND),
            },
        )
        renewed = set(rows)
        return {(lease.id, lease.fence) for lease in leases if (lease.token, lease.fence) in renewed}

    def expire(self, queue: str, limit: int) -> list[Expired]:
        rows = self._ask(sql.EXPIRE, {"queue": queue, "limit": limit, "reason": ON_REQUEST})
        if rows:
            self._floors.drop(queue)
        return [Expired(*row) for row in rows]

    def read(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self._ask(statement, parameters)

    def transact(self, work: Callable[[Rows], T]) -> T:
        self._floors = Floors()  # what people replay comes back anywhere
        return self.hold(work)

    def hold(self, work: Callable[[Rows], T]) -> T:
        return self._sessions.whole(work)

    def time_in(self, rows: Rows) -> int:
        return int(rows(sql.THE_TIME, {"now": self._moment()})[0][0])

    def tell(self, rows: Rows, queues: Iterable[str]) -> None:
        self._floors.drop(*queues)
        due = [] if self._server.pooled else self._bell.due(set(queues))
        if due:
            rows(sql.TELL, {"tell": text_array(due)})

    def migrating(self) -> AbstractContextManager[Rows]:
        return self._sessions.migrating()

    def facts(self) -> list[Fact]:
        version, commit, fsync = self._ask(sql.FACTS, {})[0]
        durable = commit != "off" and fsync == "on"
        promise = "a job is on the server's disk before enqueue returns" if durable else "the last jobs may be lost"
        return [
            Fact("server", f"PostgreSQL {version}"),
            Fact("durability", f"{promise} (synchronous_commit={commit}, fsync={fsync})", warning=not durable),
            self._ears.fact(lambda: self._ask(sql.TELL, {"tell": text_array([""])})),
        ]

    def close(self) -> None:
        self._ears.shut()
        self._sessions.close()

    def _claim_from(self, grant: Grant, queue: str, limit: int, alone: bool) -> Claim[Lease]:
        floor, started = self._floors.below(queue), time.monotonic()
        wanted = {
            **{"queue": queue, "limit": limit, "alone": alone, "promote": True, "rank": floor[0], "key": floor[1]},
            **{"owner": grant.owner, "length": round(grant.seconds * MICROSECOND)},
        }
        rows = self._ask(sql.CLAIM, wanted)
        if rows[0][0]:
            self._ask(sql.PROMOTE, {"queue": queue, "most": _PROMOTE_BATCH})
            floor = BEGINNING
            rows = self._ask(sql.CLAIM, {**wanted, "promote": False, "rank": floor[0], "key": floor[1]})
        leases = [lease_of(queue, grant.owner, row) for row in rows if row[2]]
        if len(leases) == limit:
            self._floors.raise_to(queue, (rows[-1][4], rows[-1][3]), started, floor == BEGINNING)
        else:
            self._floors.drop(queue)
        if not leases and floor != BEGINNING:
            return self._claim_from(grant, queue, limit, alone)
        return Claim(leases, met_suspect=any(row[1] for row in rows))

    def _settle(self, statement: str, verdicts: Sequence[Any], hopeful: str | None = None, **columns: Any) -> set[Pair]:
        """The `hopeful` statement is cheaper, and does nothing at all where a row is in its way."""
        keys = {
            "keys": number_array([v.lease.token for v in verdicts]),
            "fences": number_array([v.lease.fence for v in verdicts]),
        }
        values = {**keys, **columns, "now": self._moment()}
        if all(verdict.change is None for verdict in verdicts):
            return set(self._sessions.run(lambda rows: _rows(rows, statement, values, hopeful), again=False)[0])

        def settle(rows: Rows) -> set[Pair]:
            held = set(rows(statement, values))
            apply(self, rows, changes_of(verdicts, held))
            return held

        return self.transact(settle)

    def _trim_failures(self, verdicts: Sequence[Nack | Abandon]) -> None:
        ids = [v.lease.id for v in verdicts if v.failure and v.lease.fence > KEPT_FAILURES]
        if ids:
            self._ask(sql.TRIM_FAILURES, {"ids": text_array(ids), "keep": KEPT_FAILURES})

    def _ask(self, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
        values = {"now": self._moment(), **parameters}  # a neutral statement brings its own
        return self._sessions.run(lambda rows: rows(statement, values))[0]


def _rows(rows: Rows, statement: str, parameters: Mapping[str, Any], hopeful: str | None) -> list[Any]:
    if hopeful is not None:
        with suppress(psycopg.errors.UniqueViolation):
            return rows(hopeful, parameters)
    return rows(statement, parameters)
