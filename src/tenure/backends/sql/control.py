"""SqlControl: cancels, reschedules and follows jobs that have not ended.

A request to cancel a leased job is a mark on its lease row, so it disappears with the lease. The transaction that
returns a lease with that mark ends the job with `end_waiting`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tenure.backends.messages import ON_REQUEST, Lease, suspects_key
from tenure.backends.records import CancelResult, RescheduleResult
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.backends.sql.jobs import KEYS, LAST_MOMENT, NEXT_QUEUE
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress

R = TypeVar("R", bound=str)
# The order in which `heads` reads the tables: most jobs move along it, and are not missed.
_FIRST_HEAD = ("delayed", "", 0, 0)
_NEXT_HEADS: dict[str, tuple[str, str, int, int] | None] = {
    "delayed": ("parked", "", 0, 0),
    "parked": ("ready", "", 0, 0),
    "ready": ("lease", "", 0, 0),
    "lease": None,
}
_decode_cursor = msgspec.json.Decoder(tuple[str, str, int, int]).decode
_BY_KEY = ("delayed", "parked", "lease")  # the tables whose primary key is the key of the job
_FOUND = "SELECT j.key, j.id FROM tenure_job AS j"
_READY = f"""{_FOUND}
JOIN tenure_ready AS w ON w.queue = j.queue AND w.rank = j.rank AND w.key = j.key WHERE j.id IN :ids"""
_DELAYED, _PARKED, _LEASED = (
    f"{_FOUND} JOIN tenure_{table} AS w ON w.key = j.key WHERE j.id IN :ids" for table in _BY_KEY
)
READY, DELAYED, PARKED = (f"{text} FOR UPDATE" for text in (_READY, _DELAYED, _PARKED))
LIVE = " UNION ALL ".join((_READY, _DELAYED, _PARKED, _LEASED))
_HEADS_OF = """
SELECT w.rank, w.key, substr(j.body, 1, 64) FROM tenure_{table} AS w JOIN tenure_job AS j ON j.key = w.key
"""
HEADS = {table: f"{_HEADS_OF.format(table=table)} WHERE w.key > :key ORDER BY w.key LIMIT :limit" for table in _BY_KEY}
HEADS_READY = f"""
{_HEADS_OF.format(table="ready")} WHERE w.queue = :queue AND w.rank >= :rank AND (w.rank > :rank OR w.key > :key)
ORDER BY w.rank, w.key LIMIT :limit
"""
ENDED = """
SELECT key FROM tenure_outcome WHERE key IN :keys UNION ALL SELECT key FROM tenure_dead WHERE key IN :keys
"""
LEASED = "SELECT j.id FROM tenure_job AS j JOIN tenure_lease AS l ON l.key = j.key WHERE j.id IN :ids"
ASK = "UPDATE tenure_lease SET asked = 1 WHERE key IN :keys"
ASKED = """
SELECT j.id, l.fence FROM tenure_lease AS l JOIN tenure_job AS j ON j.key = l.key
WHERE l.key IN :keys AND l.asked <> 0
"""
_CANCEL = """
INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size, reason)
SELECT w.key, w.queue, 'cancelled', w.attempts, w.crashes, w.fence, :now, length(j.body), :reason
FROM tenure_job AS j
"""
CANCEL_READY = f"""{_CANCEL}
JOIN tenure_ready AS w ON w.queue = j.queue AND w.rank = j.rank AND w.key = j.key WHERE j.key IN :keys
"""
CANCEL_DELAYED = f"{_CANCEL} JOIN tenure_delayed AS w ON w.key = j.key WHERE j.key IN :keys"
CANCEL_PARKED = f"{_CANCEL} JOIN tenure_parked AS w ON w.key = j.key WHERE j.key IN :keys"
_WAITING = "queue, rank, key, attempts, crashes, fence, vanished"
RESCHEDULE = "UPDATE tenure_job SET due = :due WHERE key IN :keys"
PUT_OFF_DELAYED = "UPDATE tenure_delayed SET due = :due WHERE key IN :keys"
PUT_OFF_PARKED = f"""
INSERT INTO tenure_delayed ({_WAITING}, due) SELECT {_WAITING}, :due FROM tenure_parked WHERE key IN :keys
"""
PUT_OFF_READY = f"""
INSERT INTO tenure_delayed ({_WAITING}, due) SELECT {_WAITING}, :due FROM tenure_ready
WHERE queue = :queue AND rank = :rank AND key IN :keys
"""
BRING_DELAYED = f"""
INSERT INTO tenure_ready ({_WAITING}) SELECT {_WAITING} FROM tenure_delayed WHERE key IN :keys AND vanished >= 0
"""
BRING_PARKED = f"""
INSERT INTO tenure_ready ({_WAITING}) SELECT {_WAITING} FROM tenure_parked WHERE key IN :keys AND vanished >= 0
"""
PARK_SUSPECTS = f"""
INSERT INTO tenure_parked ({_WAITING}, guard) SELECT {_WAITING}, :guard FROM tenure_delayed
WHERE key IN :keys AND queue = :queue AND vanished < 0
"""
KEEP_SUSPECTS = "UPDATE tenure_parked SET guard = :guard WHERE key IN :keys AND queue = :queue AND vanished < 0"
DROP_BROUGHT = "DELETE FROM tenure_parked WHERE key IN :keys AND vanished >= 0"
PLACES = "SELECT DISTINCT queue, rank FROM tenure_job WHERE key IN :keys"
DROP_READY = "DELETE FROM tenure_ready WHERE queue = :queue AND rank = :rank AND key IN :keys"
DROP_DELAYED = "DELETE FROM tenure_delayed WHERE key IN :keys"
DROP_PARKED = "DELETE FROM tenure_parked WHERE key IN :keys"
FREE_UNIQUE = """
UPDATE tenure_job SET only_one = NULL WHERE key IN :keys AND only_one IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM tenure_lease AS l WHERE l.key = tenure_job.key)
"""
NOTE_PROGRESS = """
UPDATE tenure_lease SET done = :done, total = :total WHERE key = :key AND fence = :fence AND owner = :owner
    AND EXISTS (SELECT 1 FROM tenure_job AS j WHERE j.key = tenure_lease.key AND j.id = :id)
"""


class SqlControl:
    """Reads and marks the leases of one owner; waiting rows move between their tables with their counters."""

    def __init__(self, dialect: Dialect, owner: str) -> None:
        self._dialect = dialect
        self._owner = owner

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """Each page is from one table, or from one queue of ready jobs."""
        table, queue, rank, key = _decode_cursor(cursor) if cursor else _FIRST_HEAD
        page = {"queue": queue, "rank": rank, "key": key, "limit": limit}
        rows = self._dialect.read(HEADS.get(table, HEADS_READY), page)
        if len(rows) == limit:
            after: tuple[str, str, int, int] | None = (table, queue, *rows[-1][:2])
        elif table == "ready" and (next_queue := self._next_ready_queue(queue)):
            after = ("ready", next_queue, -LAST_MOMENT, 0)
        else:
            after = _NEXT_HEADS[table]
        return [bytes(head) for _, _, head in rows], None if after is None else msgspec.json.encode(after).decode()

    def cancel(self, ids: Sequence[str]) -> dict[str, CancelResult]:
        now = self._dialect.now()

        def cancel(rows: Rows, left: list[str]) -> dict[str, CancelResult]:
            return _cancelled(rows, left, now) | _asked(rows, left)

        return self._dialect.transact(lambda rows: _each(rows, ids, cancel)) if ids else {}

    def cancel_requested(self, leases: Sequence[Lease]) -> list[Lease]:
        mine = [lease for lease in leases if lease.owner == self._owner]
        if not mine:
            return []
        asked = set(self._dialect.read(ASKED, {"keys": [lease.token for lease in mine]}))
        return [lease for lease in mine if (lease.id, lease.fence) in asked]

    def save_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        mine = [item for item in items if item[0].owner == self._owner]

        def save(rows: Rows) -> None:
            for lease, progress in mine:
                row = {"done": progress.done, "total": progress.total, "owner": self._owner}
                rows(NOTE_PROGRESS, {**row, "key": lease.token, "id": lease.id, "fence": lease.fence})

        if mine:
            self._dialect.transact(save)

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, RescheduleResult]:
        def work(rows: Rows) -> dict[str, RescheduleResult]:
            now = self._dialect.time_in(rows)
            moment = due or now + round(delay * MICROSECOND)
            return _each(rows, ids, lambda rows, left: self._move(rows, left, moment, now))

        return self._dialect.transact(work) if ids else {}

    def _next_ready_queue(self, after: str) -> str | None:
        statement = NEXT_QUEUE.format(table="ready", of_state="")
        ((queue,),) = self._dialect.read(statement, {"after": after})
        return None if queue is None else str(queue)

    def _move(self, rows: Rows, ids: list[str], due: int, now: int) -> dict[str, RescheduleResult]:
        ready, delayed, parked = (rows(table, {"ids": ids}) for table in (READY, DELAYED, PARKED))
        waiting = [*ready, *delayed, *parked]
        if waiting:
            rows(RESCHEDULE, {**_keys(waiting), "due": due})
            places = rows(PLACES, _keys(waiting))
            if due > now:
                _put_off(rows, due, places, ready, delayed, parked)
            else:
                _bring_forward(rows, {queue for queue, _ in places}, delayed, parked)
            self._dialect.wake_workers(rows, {queue for queue, _ in places})
        moved: dict[str, RescheduleResult] = dict.fromkeys([id for _, id in waiting], "rescheduled")
        left = [id for id in ids if id not in moved]
        running = rows(LEASED, {"ids": left}) if left else []
        moved.update((id, "running") for (id,) in running)
        return moved


def _each(rows: Rows, ids: Sequence[str], act: Callable[[Rows, list[str]], dict[str, R]]) -> dict[str, R]:
    """The result of `act` for unfinished jobs; for the others whether they have ended or are unknown."""
    results: dict[str, Any] = dict.fromkeys(ids, "unknown")
    left = list(results)
    while left:  # a job that moves from one table to another meanwhile is found in the next round
        found: dict[str, Any] = dict(act(rows, left))
        found |= dict.fromkeys(_ended(rows, [id for id in left if id not in found]), "too_late")
        results |= found
        left = [id for id in left if id not in found]
        if not found and not (left and rows(LIVE, {"ids": left})):
            break
    return results


def end_waiting(rows: Rows, keys: list[int], now: int) -> None:
    """End those of these jobs that wait, because a user cancelled them."""
    batch = {"keys": keys}
    places = rows(PLACES, batch)
    for statement in (CANCEL_READY, CANCEL_DELAYED, CANCEL_PARKED):
        rows(statement, {**batch, "now": now, "reason": ON_REQUEST})
    for queue, rank in places:
        rows(DROP_READY, {**batch, "queue": queue, "rank": rank})
    rows(DROP_DELAYED, batch)
    rows(DROP_PARKED, batch)
    rows(FREE_UNIQUE, batch)


def _cancelled(rows: Rows, ids: list[str], now: int) -> dict[str, CancelResult]:
    waiting = [row for table in (READY, DELAYED, PARKED) for row in rows(table, {"ids": ids})]
    if waiting:
        end_waiting(rows, [key for key, _ in waiting], now)
    return dict.fromkeys([id for _, id in waiting], "cancelled")


def _asked(rows: Rows, ids: list[str]) -> dict[str, CancelResult]:
    keys = {"keys": [key for key, _ in rows(KEYS, {"ids": ids})]}
    if not keys["keys"]:
        return {}
    rows(ASK, keys)
    return dict.fromkeys([id for id, _ in rows(ASKED, keys)], "asked")


def _ended(rows: Rows, ids: list[str]) -> list[str]:
    jobs: dict[int, str] = dict(rows(KEYS, {"ids": ids})) if ids else {}
    return [jobs[key] for (key,) in rows(ENDED, {"keys": list(jobs)})] if jobs else []


def _put_off(rows: Rows, due: int, places: list[Row], ready: list[Row], delayed: list[Row], parked: list[Row]) -> None:
    if delayed:
        rows(PUT_OFF_DELAYED, {**_keys(delayed), "due": due})
    if parked:
        rows(PUT_OFF_PARKED, {**_keys(parked), "due": due})
        rows(DROP_PARKED, _keys(parked))
    for queue, rank in places if ready else ():
        place = {**_keys(ready), "queue": queue, "rank": rank}
        rows(PUT_OFF_READY, {**place, "due": due})
        rows(DROP_READY, place)


def _bring_forward(rows: Rows, queues: set[str], delayed: list[Row], parked: list[Row]) -> None:
    """Make jobs ready; a suspect among them waits apart, as before."""
    for waiting, bring, apart, drop in (
        (parked, BRING_PARKED, KEEP_SUSPECTS, DROP_BROUGHT),
        (delayed, BRING_DELAYED, PARK_SUSPECTS, DROP_DELAYED),
    ):
        if waiting:
            rows(bring, _keys(waiting))
            for queue in queues:
                rows(apart, {**_keys(waiting), "queue": queue, "guard": suspects_key(queue)})
            rows(drop, _keys(waiting))


def _keys(waiting: list[Row]) -> dict[str, list[int]]:
    return {"keys": [key for key, _ in waiting]}
