"""SqlRecords: what people look at and act on: counts, single jobs, dead letters, old history."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.contract import STATES, JobRecord, WorkerRecord
from tenure.backends.sql.sqlite import statements as sql
from tenure.backends.sql.sqlite.database import Database
from tenure.clock import MICROSECOND, Clock
from tenure.definition.failure import Failure
from tenure.definition.progress import Progress


class SqlRecords:
    """Reads the tables that the backend writes; nothing here is on the hot path."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def counts(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for queue, state, count in self._database.read(sql.COUNTS):
            found.setdefault(queue, dict.fromkeys(STATES, 0))[state] += count
        return found

    def find(self, id: str) -> JobRecord | None:
        for row in self._database.read(sql.FIND_LIVE, {"id": id}):
            return _live(row, self._failures(id))
        for statement in (sql.FIND_DEAD, sql.FIND_ENDED):
            for row in self._database.read(statement, {"id": id}):
                return _ended(row, self._failures(id))
        return None

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        died, id = after or (0, "")
        page = {"queue": queue, "limit": limit, "died": died, "id": id}
        rows = self._database.read(sql.LIST_DEAD if queue is None else sql.LIST_DEAD_OF_QUEUE, page)
        return [_ended(row, self._failures(row[0])) for row in rows]

    def replay(self, ids: Sequence[str]) -> list[str]:
        with self._database.write() as tx:
            dead = self._dead(tx, ids)
            now = self._clock.now()
            first = tx.execute(sql.NEXT_KEY, {"now": now}).fetchone()[0]
            batch = {"ids": _text(dead), "now": now, "first": first}
            tx.execute(sql.REPLAY_JOBS, batch)
            tx.execute(sql.REPLAY_READY, batch)
            tx.execute(sql.DROP_DEAD, batch)
        return dead

    def discard(self, ids: Sequence[str]) -> list[str]:
        with self._database.write() as tx:
            dead = self._dead(tx, ids)
            tx.execute(sql.DROP_DEAD, {"ids": _text(dead)})
            tx.execute(sql.DROP_FAILURES, {"ids": _text(dead)})
        return dead

    def trim(self, state: str, before: int, limit: int) -> int:
        if state == "dead":
            old = self._database.read(sql.OLD_DEAD, {"before": before, "limit": limit})
            return len(self.discard([id for (id,) in old]))
        old = []
        for (queue,) in self._database.read(sql.HISTORY_QUEUES, {"state": state}):
            page = {"state": state, "queue": queue, "before": before, "limit": limit - len(old)}
            old += self._database.read(sql.OLD_HISTORY, page)
        if old:
            with self._database.write() as tx:
                ids = {"ids": _text([id for (id,) in old])}
                tx.execute(sql.DROP_HISTORY, ids)
                tx.execute(sql.DROP_FAILURES, ids)
        return len(old)

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        now = self._clock.now()
        row = {"id": worker.id, "expires": now + round(seconds * MICROSECOND), "record": _text(worker)}
        with self._database.write() as tx:
            tx.execute(sql.GREET, row)

    def part(self, id: str) -> None:
        with self._database.write() as tx:
            tx.execute(sql.PART, {"id": id})
            tx.execute(sql.FORGET, {"now": self._clock.now()})

    def workers(self) -> list[WorkerRecord]:
        rows = self._database.read(sql.WORKERS, {"now": self._clock.now()})
        found = [msgspec.json.decode(record, type=WorkerRecord) for (record,) in rows]
        return sorted(found, key=lambda worker: worker.started_at)

    def _dead(self, tx: Any, ids: Sequence[str]) -> list[str]:
        return [id for (id,) in tx.execute(sql.DEAD_IDS, {"ids": _text(list(ids))})]

    def _failures(self, id: str) -> tuple[Failure, ...]:
        rows = self._database.read(sql.FAILURES, {"id": id})
        return tuple(msgspec.json.decode(record, type=Failure) for (record,) in rows)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _live(row: tuple[Any, ...], failures: tuple[Failure, ...]) -> JobRecord:
    id, queue, priority, handler, name, enqueued, due, body = row[:8]
    ready, delayed, leased = row[8:12], row[12:17], row[17:]
    state, counters = ("ready", ready[1:])
    if delayed[0] is not None:
        state, counters, due = "delayed", delayed[1:4], delayed[4]
    elif leased[0] is not None:
        state, counters = "leased", leased[1:4]
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
    )


_ENDED = (
    *("id", "queue", "priority", "handler", "name", "state", "attempts", "crashes", "fence"),
    *("enqueued_at", "due_at", "finished_at", "owner", "seconds", "reason", "output", "body"),
)


def _ended(row: tuple[Any, ...], failures: tuple[Failure, ...]) -> JobRecord:
    return JobRecord(**dict(zip(_ENDED, row, strict=True)), failures=failures)
