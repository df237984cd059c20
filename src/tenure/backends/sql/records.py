"""SqlRecords: what people look at and act on: counts, single jobs, dead letters, old history."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.asking import STATES, Burial, JobRecord
from tenure.backends.sql import statements as sql
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.backends.upkeep import WorkerRecord
from tenure.clock import MICROSECOND
from tenure.definition.failure import Failure
from tenure.definition.progress import Progress
from tenure.events import Run


class SqlRecords:
    """Reads the tables that the backend writes; nothing here is on the hot path."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for queue, state, count in self._dialect.read(sql.COUNTS if ended else sql.COUNTS_LIVE, {}):
            found.setdefault(queue, dict.fromkeys(STATES, 0))[state] += count
        return found

    def find(self, id: str) -> JobRecord | None:
        for row in self._dialect.read(sql.FIND_LIVE, {"id": id}):
            return _live(row, self.failures([id])[id])
        for statement in (sql.FIND_DEAD, sql.FIND_ENDED):
            for row in self._dialect.read(statement, {"id": id}):
                return ended(row, self.failures([id])[id])
        return None

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        rows = self._dialect.read(sql.HEADS, {"after": int(cursor or 0), "limit": limit})
        return [bytes(head) for _, head in rows], str(rows[-1][0]) if len(rows) == limit else None

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        died, id = after or (0, "")
        page = {"limit": limit, "died": died, "id": id}
        if queue is None:
            rows = self._dialect.read(sql.LIST_DEAD, page)
        else:
            rows = self._dialect.read(sql.LIST_DEAD_OF_QUEUE, {**page, "queue": queue})
        failures = self.failures([row[0] for row in rows])
        return [ended(row, failures[row[0]]) for row in rows]

    def replay(self, ids: Sequence[str]) -> list[str]:
        now = self._dialect.now()

        def revive(rows: Rows) -> list[str]:
            dead = {"ids": _dead(rows, ids)}
            if dead["ids"]:
                rows(self._dialect.replay_jobs, {**dead, "now": now})
                rows(sql.REPLAY_READY, dead)
                rows(sql.DROP_DEAD, dead)
            return dead["ids"]

        return self._dialect.transact(revive)

    def bury(self, burials: Sequence[Burial]) -> list[str]:
        now = self._dialect.now()
        fresh = {burial.message.id: burial for burial in reversed(burials)}

        def store(rows: Rows) -> list[str]:
            new = _reserved(rows, list(dict.fromkeys(burial.message.id for burial in burials)))
            for id in new:
                rows(sql.BURY, _letter(fresh[id], now))
                if failure := fresh[id].failure:
                    rows(sql.KEEP_FAILURE, {"id": id, "record": msgspec.json.encode(failure).decode()})
            rows(sql.RELEASE_IDS, {"ids": list(fresh)})
            return new

        return self._dialect.transact(store) if burials else []

    def discard(self, ids: Sequence[str]) -> list[str]:
        def delete(rows: Rows) -> list[str]:
            dead = {"ids": _dead(rows, ids)}
            rows(sql.DROP_DEAD, dead)
            rows(sql.DROP_FAILURES, dead)
            return dead["ids"]

        return self._dialect.transact(delete)

    def queues_with(self, state: str) -> list[str]:
        table = _TABLES.get(state)
        statement = sql.NEXT_QUEUE.format(table=table or "history", of_state="" if table else "state = :state AND ")
        found: list[str] = []
        while True:
            given = {"after": found[-1] if found else ""} | ({} if table else {"state": state})
            ((queue,),) = self._dialect.read(statement, given)
            if queue is None:
                return found
            found.append(queue)

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        if state == "dead":
            old_dead = sql.OLD_DEAD if queue is None else sql.OLD_DEAD_OF_QUEUE
            page = {"before": before, "limit": limit} | ({} if queue is None else {"queue": queue})
            old = self._dialect.read(old_dead, page)
            return len(self.discard([id for (id,) in old])) if old else 0
        old = []
        for name in self.queues_with(state) if queue is None else [queue]:
            page = {"state": state, "queue": name, "before": before, "limit": limit - len(old)}
            old += self._dialect.read(sql.OLD_HISTORY, page)

        def delete(rows: Rows) -> None:
            ids = {"ids": [id for (id,) in old]}
            rows(sql.DROP_HISTORY, ids)
            rows(sql.DROP_FAILURES, ids)

        if old:
            self._dialect.transact(delete)
        return len(old)

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        expires = self._dialect.now() + round(seconds * MICROSECOND)
        row = {"id": worker.id, "expires": expires, "record": msgspec.json.encode(worker).decode()}

        def say(rows: Rows) -> None:
            rows(sql.PART, {"id": worker.id})
            rows(sql.JOIN, row)

        self._dialect.transact(say)

    def part(self, id: str) -> None:
        now = self._dialect.now()

        def leave(rows: Rows) -> None:
            rows(sql.PART, {"id": id})
            rows(sql.FORGET, {"now": now})

        self._dialect.transact(leave)

    def workers(self) -> list[WorkerRecord]:
        rows = self._dialect.read(sql.WORKERS, {"now": self._dialect.now()})
        found = [msgspec.json.decode(record, type=WorkerRecord) for (record,) in rows]
        return sorted(found, key=lambda worker: worker.started_at)

    def failures(self, ids: list[str]) -> dict[str, tuple[Failure, ...]]:
        found: dict[str, tuple[Failure, ...]] = dict.fromkeys(ids, ())
        for id, record in self._dialect.read(sql.FAILURES, {"ids": ids}) if ids else ():
            found[id] += (_failure(record),)
        return found


def _reserved(rows: Rows, ids: list[str]) -> list[str]:
    """Those of these ids that nobody knows, nor can put before the transaction ends."""
    for id in sorted(ids):
        rows(sql.RESERVE_ID, {"id": id})
    ours = {id for (id,) in rows(sql.RESERVED_IDS, {"ids": ids})}
    ended = {id for (id,) in rows(sql.ENDED, {"ids": ids})}
    return [id for id in ids if id in ours - ended]


def _letter(burial: Burial, now: int) -> dict[str, Any]:
    message = burial.message
    return {
        "id": message.id,
        "queue": message.queue,
        "rank": -message.priority,
        "handler": message.handler,
        "name": message.name,
        "attempts": burial.attempts,
        "now": now,
        "reason": burial.reason,
        "body": message.body,
    }


_failure = msgspec.json.Decoder(Failure).decode


def _dead(rows: Rows, ids: Sequence[str]) -> list[str]:
    return [id for (id,) in rows(sql.DEAD_IDS, {"ids": list(ids)})]


def _live(row: tuple[Any, ...], failures: tuple[Failure, ...]) -> JobRecord:
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


_TABLES = {"ready": "ready", "delayed": "delayed", "parked": "parked", "leased": "lease", "dead": "dead"}
_run = msgspec.json.Decoder(Run).decode
_ENDED = (
    *("id", "queue", "priority", "handler", "name", "state", "attempts", "crashes", "fence"),
    *("enqueued_at", "due_at", "finished_at", "owner", "seconds", "reason", "output", "body", "run"),
)


def ended(row: tuple[Any, ...], failures: tuple[Failure, ...]) -> JobRecord:
    run = None if row[-1] is None else _run(row[-1])
    return JobRecord(**dict(zip(_ENDED, (*row[:-1], run), strict=True)), failures=failures)
