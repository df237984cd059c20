"""SqlDeadLetters: the table of dead letters, and the way back into a queue."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.backends.sql.jobs import DEAD_COLUMNS, DROP_FAILURES, ended_record, read_failures

_PAGE = "died >= :died AND (died > :died OR id > :id) ORDER BY died, id LIMIT :limit"
LIST_DEAD = f"{DEAD_COLUMNS} WHERE {_PAGE}"
LIST_DEAD_OF_QUEUE = f"{DEAD_COLUMNS} WHERE queue = :queue AND {_PAGE}"
DEAD_IDS = "SELECT id FROM tenure_dead WHERE id IN :ids ORDER BY enqueued, id FOR UPDATE"
REPLAY_READY = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
SELECT j.queue, j.rank, j.key, 0, 0, d.fence, 0 FROM tenure_job AS j JOIN tenure_dead AS d ON d.id = j.id
WHERE j.id IN :ids
"""
# No job has an empty queue: a row with one reserves its id until the transaction ends.
RESERVE_ID = """
INSERT INTO tenure_job (id, queue, rank, handler, enqueued, due, body) VALUES (:id, '', 0, '', 0, 0, '')
ON CONFLICT DO NOTHING
"""
RESERVED_IDS = "SELECT id FROM tenure_job WHERE id IN :ids AND queue = ''"
RELEASE_IDS = "DELETE FROM tenure_job WHERE id IN :ids AND queue = ''"
ADD_DEAD = """
INSERT INTO tenure_dead (id, queue, rank, handler, name, attempts, crashes, fence, enqueued, due, died,
                         owner, reason, body)
VALUES (:id, :queue, :rank, :handler, :name, :attempts, 0, 0, :now, :now, :now, '', :reason, :body)
"""
ADD_FAILURE = "INSERT INTO tenure_failure (id, fence, record) VALUES (:id, 0, :record)"
DROP_DEAD = "DELETE FROM tenure_dead WHERE id IN :ids"
OLD_DEAD = "SELECT id FROM tenure_dead WHERE died < :before ORDER BY died LIMIT :limit"
OLD_DEAD_OF_QUEUE = """
SELECT id FROM tenure_dead WHERE queue = :queue AND died < :before ORDER BY died LIMIT :limit
"""
ENDED_IDS = """
SELECT id FROM tenure_history WHERE id IN :ids UNION ALL SELECT id FROM tenure_dead WHERE id IN :ids
"""


class SqlDeadLetters:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        died, id = after or (0, "")
        page = {"limit": limit, "died": died, "id": id}
        if queue is None:
            rows = self._dialect.read(LIST_DEAD, page)
        else:
            rows = self._dialect.read(LIST_DEAD_OF_QUEUE, {**page, "queue": queue})
        failures = read_failures(self._dialect, [row[0] for row in rows])
        return [ended_record(row, failures[row[0]]) for row in rows]

    def replay(self, ids: Sequence[str]) -> list[str]:
        now = self._dialect.now()

        def revive(rows: Rows) -> list[str]:
            dead = {"ids": _dead(rows, ids)}
            if dead["ids"]:
                rows(self._dialect.replay_jobs, {**dead, "now": now})
                rows(REPLAY_READY, dead)
                rows(DROP_DEAD, dead)
            return dead["ids"]

        return self._dialect.transact(revive)

    def discard(self, ids: Sequence[str]) -> list[str]:
        def delete(rows: Rows) -> list[str]:
            dead = {"ids": _dead(rows, ids)}
            rows(DROP_DEAD, dead)
            rows(DROP_FAILURES, dead)
            return dead["ids"]

        return self._dialect.transact(delete)

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        now = self._dialect.now()
        fresh = {letter.message.id: letter for letter in reversed(letters)}

        def store(rows: Rows) -> list[str]:
            new = _reserved(rows, list(dict.fromkeys(letter.message.id for letter in letters)))
            for id in new:
                rows(ADD_DEAD, _columns(fresh[id], now))
                if failure := fresh[id].failure:
                    rows(ADD_FAILURE, {"id": id, "record": msgspec.json.encode(failure).decode()})
            rows(RELEASE_IDS, {"ids": list(fresh)})
            return new

        return self._dialect.transact(store) if letters else []

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        statement = OLD_DEAD if queue is None else OLD_DEAD_OF_QUEUE
        page = {"before": before, "limit": limit} | ({} if queue is None else {"queue": queue})
        old = self._dialect.read(statement, page)
        return len(self.discard([id for (id,) in old])) if old else 0


def _reserved(rows: Rows, ids: list[str]) -> list[str]:
    """The ids that are unknown; no other transaction can put them before this one ends."""
    for id in sorted(ids):
        rows(RESERVE_ID, {"id": id})
    ours = {id for (id,) in rows(RESERVED_IDS, {"ids": ids})}
    ended = {id for (id,) in rows(ENDED_IDS, {"ids": ids})}
    return [id for id in ids if id in ours - ended]


def _columns(letter: NewDeadLetter, now: int) -> dict[str, Any]:
    message = letter.message
    return {
        "id": message.id,
        "queue": message.queue,
        "rank": -message.priority,
        "handler": message.handler,
        "name": message.name,
        "attempts": letter.attempts,
        "now": now,
        "reason": letter.reason,
        "body": message.body,
    }


def _dead(rows: Rows, ids: Sequence[str]) -> list[str]:
    return [id for (id,) in rows(DEAD_IDS, {"ids": list(ids)})]
