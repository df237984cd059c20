"""SqlDeadLetters: the table of dead letters, and the way back into a queue."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.backends.sql.dialect import Dialect, Rows, stored_tags
from tenure.backends.sql.job_rows import JOBS_AND_BODIES_BY_KEY, job_record, read_failures, with_jobs
from tenure.backends.sql.jobs import DEAD_COLUMNS, KEYS, delete_jobs

_PAGE = "died >= :died AND (died > :died OR id > :id) ORDER BY died, id LIMIT :limit"
LIST_DEAD = f"{DEAD_COLUMNS} WHERE {_PAGE}"
LIST_DEAD_OF_QUEUE = f"{DEAD_COLUMNS} WHERE queue = :queue AND {_PAGE}"
# Jobs and dead letters are read one after the other: PostgreSQL may not use nested loops, and would join whole tables.
ENQUEUED = "SELECT key, enqueued, id FROM tenure_job WHERE id IN :ids"
DEAD_KEYS = "SELECT key FROM tenure_dead WHERE key IN :keys ORDER BY key FOR UPDATE"
REPLAY_READY = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
SELECT j.queue, j.rank, j.key, 0, 0, w.fence, 0 FROM tenure_job AS j JOIN tenure_dead AS w ON w.key = j.key
WHERE j.key IN :keys AND w.key IN :keys
"""
# No job has an empty queue: a row with one has reserved its id for this transaction.
ADD_JOB = """
INSERT INTO tenure_job (id, queue, rank, handler, name, enqueued, due, body, tags)
VALUES (:id, '', :rank, :handler, :name, :now, :now, :body, :tags) ON CONFLICT DO NOTHING
"""
ADD_TAG = "INSERT INTO tenure_tag (tag, enqueued, key) SELECT :tag, enqueued, key FROM tenure_job WHERE id = :id"
ADDED = "SELECT id FROM tenure_job WHERE id IN :ids AND queue = ''"
NAME_QUEUE = "UPDATE tenure_job SET queue = :queue WHERE id = :id AND queue = ''"
ADD_DEAD = """
INSERT INTO tenure_dead (key, id, queue, attempts, crashes, fence, died, owner, reason)
SELECT key, id, queue, :attempts, 0, 0, :now, '', :reason FROM tenure_job WHERE id = :id
"""
ADD_FAILURE = "INSERT INTO tenure_failure (id, fence, record) VALUES (:id, 0, :record)"
DROP_DEAD = "DELETE FROM tenure_dead WHERE key IN :keys"
OLD_DEAD = "SELECT id FROM tenure_dead WHERE died < :before ORDER BY died, id LIMIT :limit"
OLD_DEAD_OF_QUEUE = """
SELECT id FROM tenure_dead WHERE queue = :queue AND died < :before ORDER BY died, id LIMIT :limit
"""


class SqlDeadLetters:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        """Letters that leave between two statements are replaced by the next ones: only the last page is short."""
        statement, of_queue = (LIST_DEAD, {}) if queue is None else (LIST_DEAD_OF_QUEUE, {"queue": queue})
        (died, id), missing, rows = after or (0, ""), limit, []
        while missing:
            letters = self._dialect.read(statement, {**of_queue, "died": died, "id": id, "limit": missing})
            rows += with_jobs(self._dialect, letters, JOBS_AND_BODIES_BY_KEY)
            if len(letters) < missing:
                break
            (died, id), missing = letters[-1][-2:], limit - len(rows)
        failures = read_failures(self._dialect, [row[0] for row in rows])
        return [job_record(row, failures[row[0]]) for row in rows]

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Each job gets a new key, the next of all, so that it waits behind the other jobs of its priority."""
        now = self._dialect.now()

        def revive(rows: Rows) -> list[str]:
            keys, dead = _dead(rows, ids)
            if dead:
                self._dialect.renew_keys(rows, keys, now)
                new = [key for key, _ in rows(KEYS, {"ids": dead})]
                rows(REPLAY_READY, {"keys": new})
                rows(DROP_DEAD, {"keys": new})
            return dead

        return self._dialect.transact(revive)

    def discard(self, ids: Sequence[str]) -> list[str]:
        def delete(rows: Rows) -> list[str]:
            keys, dead = _dead(rows, ids)
            if dead:
                rows(DROP_DEAD, {"keys": keys})
                delete_jobs(self._dialect, rows, keys)
            return dead

        return self._dialect.transact(delete)

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        now = self._dialect.now()
        fresh = {letter.message.id: letter for letter in reversed(letters)}

        def store(rows: Rows) -> list[str]:
            for id in sorted(fresh):  # every transaction reserves ids in one order, so none deadlocks
                rows(ADD_JOB, _columns(fresh[id], now))
            added = {id for (id,) in rows(ADDED, {"ids": list(fresh)})}
            new = [id for id in dict.fromkeys(letter.message.id for letter in letters) if id in added]
            for id in new:
                rows(NAME_QUEUE, {"id": id, "queue": fresh[id].message.queue})
                rows(ADD_DEAD, {"id": id, "attempts": fresh[id].attempts, "reason": fresh[id].reason, "now": now})
                for tag in fresh[id].message.tags:
                    rows(ADD_TAG, {"id": id, "tag": tag})
                if failure := fresh[id].failure:
                    rows(ADD_FAILURE, {"id": id, "record": msgspec.json.encode(failure).decode()})
            return new

        return self._dialect.transact(store) if letters else []

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        statement = OLD_DEAD if queue is None else OLD_DEAD_OF_QUEUE
        page = {"before": before, "limit": limit} | ({} if queue is None else {"queue": queue})
        old = self._dialect.read(statement, page)
        return len(self.discard([id for (id,) in old])) if old else 0


def _columns(letter: NewDeadLetter, now: int) -> dict[str, Any]:
    message = letter.message
    return {
        "id": message.id,
        "rank": -message.priority,
        "handler": message.handler,
        "name": message.name,
        "now": now,
        "body": message.body,
        "tags": stored_tags(message),
    }


def _dead(rows: Rows, ids: Sequence[str]) -> tuple[list[int], list[str]]:
    """The keys and ids of those that are dead letters, in the order of their enqueue."""
    jobs = {key: place for key, *place in rows(ENQUEUED, {"ids": list(ids)})} if ids else {}
    dead = [key for (key,) in rows(DEAD_KEYS, {"keys": list(jobs)})] if jobs else []
    dead.sort(key=jobs.__getitem__)
    return dead, [jobs[key][1] for key in dead]
