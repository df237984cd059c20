"""SqlControl: cancels, reschedules and follows jobs that have not ended.

A request to cancel a leased job is a mark on its lease row, so it disappears with the lease. The transaction that
returns a lease with that mark ends the job with `end_waiting`.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from tenure.backends.messages import ON_REQUEST, Lease, suspects_key
from tenure.backends.records import CancelResult, RescheduleResult
from tenure.backends.sql.batches import expand_batches_of, expand_leases, fences_of_leased
from tenure.backends.sql.dialect import Dialect, Row, Rows
from tenure.backends.sql.jobs import ENDED_OR_DEAD, LAST_MOMENT, NEXT_QUEUE
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress

R = TypeVar("R", bound=str)
T = TypeVar("T", str, int)
# The order in which `heads` reads the tables: most jobs move along it, and are not missed.
_FIRST_HEAD = ("delayed", "", 0, 0)
_NEXT_HEADS: dict[str, tuple[str, str, int, int] | None] = {
    "delayed": ("parked", "", 0, 0),
    "parked": ("ready", "", 0, 0),
    "ready": ("member", "", 0, 0),
    "member": ("lease", "", 0, 0),
    "lease": None,
}
_decode_cursor = msgspec.json.Decoder(tuple[str, str, int, int]).decode
# Keys are read first, and then the tables by key: PostgreSQL may not use nested loops, and would join whole tables.
JOBS = "SELECT key, id, queue, rank FROM tenure_job WHERE id IN :ids"
# Without the range, PostgreSQL reads the whole priority of the queue and compares each key with the list.
_READY_AT = "queue = :queue AND rank = :rank AND key >= :first AND key <= :last AND key IN :keys"
_LARGEST_GAP = 20  # between two keys of a range
READY = f"SELECT key FROM tenure_ready WHERE {_READY_AT} FOR UPDATE"
DELAYED = "SELECT key FROM tenure_delayed WHERE key IN :keys FOR UPDATE"
PARKED = "SELECT key FROM tenure_parked WHERE key IN :keys FOR UPDATE"
HEADS = {
    table: f"SELECT rank, key FROM tenure_{table} WHERE key > :key ORDER BY key LIMIT :limit"
    for table in ("delayed", "parked", "lease")
}
HEADS["ready"] = """
SELECT rank, key FROM tenure_ready WHERE queue = :queue AND rank >= :rank AND (rank > :rank OR key > :key)
ORDER BY rank, key LIMIT :limit
"""
HEADS["member"] = "SELECT batch, key FROM tenure_member WHERE batch = :rank AND key > :key ORDER BY key LIMIT :limit"
NEXT_READY_QUEUE = NEXT_QUEUE.format(table="ready", of_state="")
NEXT_BATCH = "SELECT min(key) FROM tenure_batch WHERE key > :after"
HEADS_OF_JOBS = "SELECT substr(body, 1, 64) FROM tenure_job WHERE key IN :keys"
ASK = "UPDATE tenure_lease SET asked = 1 WHERE key IN :keys"
ASKED = "SELECT key, fence FROM tenure_lease WHERE key IN :keys AND asked <> 0"
_CANCEL = """
INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size, reason)
SELECT key, queue, 'cancelled', attempts, crashes, fence, :now,
       coalesce((SELECT length(j.body) FROM tenure_job AS j WHERE j.key = w.key), 0), :reason
FROM tenure_{table} AS w WHERE
"""
CANCEL_READY = f"{_CANCEL.format(table='ready')} {_READY_AT}"
CANCEL_DELAYED = f"{_CANCEL.format(table='delayed')} key IN :keys"
CANCEL_PARKED = f"{_CANCEL.format(table='parked')} key IN :keys"
_WAITING = "queue, rank, key, attempts, crashes, fence, vanished"
RESCHEDULE = "UPDATE tenure_job SET due = :due WHERE key IN :keys"
PUT_OFF_DELAYED = "UPDATE tenure_delayed SET due = :due WHERE key IN :keys"
PUT_OFF_PARKED = f"""
INSERT INTO tenure_delayed ({_WAITING}, due) SELECT {_WAITING}, :due FROM tenure_parked WHERE key IN :keys
"""
PUT_OFF_READY = f"""
INSERT INTO tenure_delayed ({_WAITING}, due) SELECT {_WAITING}, :due FROM tenure_ready WHERE {_READY_AT}
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
DROP_READY = f"DELETE FROM tenure_ready WHERE {_READY_AT}"
DROP_DELAYED = "DELETE FROM tenure_delayed WHERE key IN :keys"
DROP_PARKED = "DELETE FROM tenure_parked WHERE key IN :keys"
UNIQUES = "SELECT key FROM tenure_job WHERE key IN :keys AND only_one IS NOT NULL"
FREE_UNIQUE = "UPDATE tenure_job SET only_one = NULL WHERE key IN :keys"
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
        """Each page is from one table, from one queue of ready jobs, or from one batch, whose key is in `rank`."""
        table, queue, rank, key = _decode_cursor(cursor) if cursor else _FIRST_HEAD
        page = {"queue": queue, "rank": rank, "key": key, "limit": limit}
        rows = self._dialect.read(HEADS[table], page)
        if len(rows) == limit:
            after: tuple[str, str, int, int] | None = (table, queue, *rows[-1])
        elif table == "ready" and (next_queue := self._next(NEXT_READY_QUEUE, queue)):
            after = ("ready", next_queue, -LAST_MOMENT, 0)
        elif table == "member" and (next_batch := self._next(NEXT_BATCH, rank)):
            after = ("member", "", next_batch, 0)
        else:
            after = _NEXT_HEADS[table]
        heads = self._dialect.read(HEADS_OF_JOBS, {"keys": [key for _, key in rows]}) if rows else []
        return [bytes(head) for (head,) in heads], None if after is None else msgspec.json.encode(after).decode()

    def cancel(self, ids: Sequence[str]) -> dict[str, CancelResult]:
        now = self._dialect.now()

        def cancel(rows: Rows, jobs: "NamedJobs") -> dict[str, CancelResult]:
            return _cancelled(rows, jobs, now) | _asked(rows, jobs)

        return self._dialect.transact(lambda rows: _each(rows, ids, cancel)) if ids else {}

    def cancel_requested(self, leases: Sequence[Lease]) -> list[Lease]:
        mine = [lease for lease in leases if lease.owner == self._owner]
        if not mine:
            return []
        asked = set(self._dialect.read(ASKED, {"keys": [lease.token for lease in mine]}))
        return [lease for lease in mine if (lease.token, lease.fence) in asked]

    def save_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        mine = [item for item in items if item[0].owner == self._owner]

        def save(rows: Rows) -> None:
            for lease, progress in mine:
                row = {"done": progress.done, "total": progress.total, "owner": self._owner}
                rows(NOTE_PROGRESS, {**row, "key": lease.token, "id": lease.id, "fence": lease.fence})

        if mine:
            expand_leases(self._dialect, [lease for lease, _ in mine])
            self._dialect.transact(save)

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, RescheduleResult]:
        def work(rows: Rows) -> dict[str, RescheduleResult]:
            now = self._dialect.time_in(rows)
            moment = due or now + round(delay * MICROSECOND)
            return _each(rows, ids, lambda rows, jobs: self._move(rows, jobs, moment, now))

        return self._dialect.transact(work) if ids else {}

    def _next(self, statement: str, after: T) -> T | None:
        found: T | None = self._dialect.read(statement, {"after": after})[0][0]
        return found

    def _move(self, rows: Rows, jobs: "NamedJobs", due: int, now: int) -> dict[str, RescheduleResult]:
        ready, delayed, parked = jobs.lock_waiting(rows)
        waiting = [*ready, *delayed, *parked]
        if waiting:
            rows(RESCHEDULE, {"keys": waiting, "due": due})
            places = rows(PLACES, {"keys": waiting})
            if due > now:
                _put_off(rows, due, places, ready, delayed, parked)
            else:
                _bring_forward(rows, {queue for queue, _ in places}, delayed, parked)
            self._dialect.wake_workers(rows, {queue for queue, _ in places})
        moved: dict[str, RescheduleResult] = dict.fromkeys(jobs.ids_of(waiting), "rescheduled")
        moved.update(dict.fromkeys(jobs.ids_of(fences_of_leased(rows, list(jobs.id_of))), "running"))
        return moved


class NamedJobs:
    """The jobs that a user named, with their keys and places."""

    def __init__(self, found: list[Row]) -> None:
        self.id_of: dict[int, str] = {key: id for key, id, _, _ in found}
        self._places: dict[tuple[str, int], list[int]] = {}
        for key, _, queue, rank in found:
            self._places.setdefault((queue, rank), []).append(key)

    def ids_of(self, keys: Iterable[int]) -> list[str]:
        return [self.id_of[key] for key in keys]

    def lock_waiting(self, rows: Rows) -> tuple[list[int], list[int], list[int]]:
        """The keys of those that are ready, delayed and parked; locked until the transaction ends."""
        ready = [
            key
            for (queue, rank), keys in self._places.items()
            for run in _runs(queue, rank, keys)
            for (key,) in rows(READY, run)
        ]
        keys = {"keys": list(self.id_of)}
        return ready, [key for (key,) in rows(DELAYED, keys)], [key for (key,) in rows(PARKED, keys)]

    def ended(self, rows: Rows, found: Container[str]) -> list[str]:
        """The ids of those that have ended, without those that were found."""
        left = [key for key, id in self.id_of.items() if id not in found]
        return self.ids_of(key for (key,) in rows(ENDED_OR_DEAD, {"keys": left})) if left else []

    def are_live(self, rows: Rows) -> bool:
        return bool(self.id_of) and (any(self.lock_waiting(rows)) or bool(fences_of_leased(rows, list(self.id_of))))


def _each(rows: Rows, ids: Sequence[str], act: Callable[[Rows, NamedJobs], dict[str, R]]) -> dict[str, R]:
    """The result of `act` for unfinished jobs; for the others whether they have ended or are unknown."""
    results: dict[str, Any] = dict.fromkeys(ids, "unknown")
    left = list(results)
    while left:  # a job that moves from one table to another meanwhile is found in the next round
        jobs = NamedJobs(rows(JOBS, {"ids": left}))
        found: dict[str, Any] = dict(act(rows, jobs)) if jobs.id_of else {}
        found |= dict.fromkeys(jobs.ended(rows, found), "too_late")
        results |= found
        left = [id for id in left if id not in found]
        if not found and not jobs.are_live(rows):
            break
    return results


def end_waiting(rows: Rows, keys: list[int], now: int) -> None:
    """End those of these jobs that wait, because a user cancelled them."""
    batch = {"keys": keys, "now": now, "reason": ON_REQUEST}
    for queue, rank in rows(PLACES, batch):
        for run in _runs(queue, rank, keys):
            rows(CANCEL_READY, {**batch, **run})
            rows(DROP_READY, run)
    for statement in (CANCEL_DELAYED, DROP_DELAYED, CANCEL_PARKED, DROP_PARKED):
        rows(statement, batch)
    if uniques := [key for (key,) in rows(UNIQUES, batch)]:
        leased = fences_of_leased(rows, uniques)
        rows(FREE_UNIQUE, {"keys": [key for key in uniques if key not in leased]})


def _runs(queue: str, rank: int, keys: list[int]) -> list[dict[str, Any]]:
    """The parameters of _READY_AT, for each run of keys with small gaps."""
    runs: list[list[int]] = []
    for key in sorted(keys):
        if runs and key - runs[-1][-1] <= _LARGEST_GAP:
            runs[-1].append(key)
        else:
            runs.append([key])
    return [{"queue": queue, "rank": rank, "keys": run, "first": run[0], "last": run[-1]} for run in runs]


def _cancelled(rows: Rows, jobs: NamedJobs, now: int) -> dict[str, CancelResult]:
    waiting = [key for keys in jobs.lock_waiting(rows) for key in keys]
    if waiting:
        end_waiting(rows, waiting, now)
    return dict.fromkeys(jobs.ids_of(waiting), "cancelled")


def _asked(rows: Rows, jobs: NamedJobs) -> dict[str, CancelResult]:
    keys = {"keys": list(jobs.id_of)}
    expand_batches_of(rows, keys["keys"])
    rows(ASK, keys)
    return dict.fromkeys(jobs.ids_of(key for key, _ in rows(ASKED, keys)), "asked")


def _put_off(rows: Rows, due: int, places: list[Row], ready: list[int], delayed: list[int], parked: list[int]) -> None:
    if delayed:
        rows(PUT_OFF_DELAYED, {"keys": delayed, "due": due})
    if parked:
        rows(PUT_OFF_PARKED, {"keys": parked, "due": due})
        rows(DROP_PARKED, {"keys": parked})
    for queue, rank in places if ready else ():
        for run in _runs(queue, rank, ready):
            rows(PUT_OFF_READY, {**run, "due": due})
            rows(DROP_READY, run)


def _bring_forward(rows: Rows, queues: set[str], delayed: list[int], parked: list[int]) -> None:
    """Make jobs ready; a suspect among them waits apart, as before."""
    for waiting, bring, apart, drop in (
        (parked, BRING_PARKED, KEEP_SUSPECTS, DROP_BROUGHT),
        (delayed, BRING_DELAYED, PARK_SUSPECTS, DROP_DELAYED),
    ):
        if waiting:
            rows(bring, {"keys": waiting})
            for queue in queues:
                rows(apart, {"keys": waiting, "queue": queue, "guard": suspects_key(queue)})
            rows(drop, {"keys": waiting})
