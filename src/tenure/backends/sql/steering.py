"""SqlSteering: jobs are cancelled, and followed, from outside.

A request to cancel is a mark on the lease row, so it goes when the lease goes.
Whoever returns a lease with that mark ends the job in the same transaction, with `end`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tenure.backends.asking import Fate
from tenure.backends.contract import ON_REQUEST, Lease
from tenure.backends.sql import statements as sql
from tenure.backends.sql.dialect import Dialect, Rows
from tenure.definition.progress import Progress

W = TypeVar("W", bound=str)


class SqlSteering:
    """Looks at the leases of one owner."""

    def __init__(self, dialect: Dialect, owner: str) -> None:
        self._dialect = dialect
        self._owner = owner

    def cancel(self, ids: Sequence[str]) -> dict[str, Fate]:
        now = self._dialect.now()

        def look(rows: Rows, left: list[str]) -> dict[str, Fate]:
            return _cancelled(rows, left, now) | _asked(rows, left)

        return self._dialect.transact(lambda rows: each_of(rows, ids, look)) if ids else {}

    def asked_to_stop(self, leases: Sequence[Lease]) -> list[Lease]:
        mine = [lease for lease in leases if lease.owner == self._owner]
        if not mine:
            return []
        asked = set(self._dialect.read(sql.ASKED, {"keys": [lease.token for lease in mine]}))
        return [lease for lease in mine if (lease.id, lease.fence) in asked]

    def note_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        mine = [item for item in items if item[0].owner == self._owner]

        def note(rows: Rows) -> None:
            for lease, progress in mine:
                noted = {"done": progress.done, "total": progress.total, "owner": self._owner}
                rows(sql.NOTE_PROGRESS, {**noted, "key": lease.token, "id": lease.id, "fence": lease.fence})

        if mine:
            self._dialect.transact(note)


def each_of(rows: Rows, ids: Sequence[str], look: Callable[[Rows, list[str]], dict[str, W]]) -> dict[str, W]:
    """What `look` says of jobs that live, and of the others whether they have ended or are unknown."""
    answers: dict[str, Any] = dict.fromkeys(ids, "unknown")
    left = list(answers)
    while left:  # a job that was on its way from one table to another is met in the next round
        found: dict[str, Any] = dict(look(rows, left))
        found |= dict.fromkeys(_ended(rows, [id for id in left if id not in found]), "too_late")
        answers |= found
        left = [id for id in left if id not in found]
        if not found and not (left and rows(sql.LIVE, {"ids": left})):
            break
    return answers


def end(rows: Rows, keys: list[int], now: int) -> None:
    """Of these keys, end those that wait: somebody wanted them cancelled."""
    batch = {"keys": keys}
    places = rows(sql.PLACES, batch)
    for statement in (sql.CANCEL_READY, sql.CANCEL_DELAYED, sql.CANCEL_PARKED):
        rows(statement, {**batch, "now": now, "reason": ON_REQUEST})
    for queue, rank in places:
        rows(sql.DROP_READY, {**batch, "queue": queue, "rank": rank})
    rows(sql.DROP_DELAYED, batch)
    rows(sql.DROP_PARKED, batch)
    rows(sql.DROP_UNLEASED, batch)


def _cancelled(rows: Rows, ids: list[str], now: int) -> dict[str, Fate]:
    waiting = [row for table in (sql.READY, sql.DELAYED, sql.PARKED) for row in rows(table, {"ids": ids})]
    if waiting:
        end(rows, [key for key, _ in waiting], now)
    return dict.fromkeys([id for _, id in waiting], "cancelled")


def _asked(rows: Rows, ids: list[str]) -> dict[str, Fate]:
    keys = {"keys": [key for (key,) in rows(sql.LIVE, {"ids": ids})]}
    if not keys["keys"]:
        return {}
    rows(sql.ASK, keys)
    return dict.fromkeys([id for id, _ in rows(sql.ASKED, keys)], "asked")


def _ended(rows: Rows, ids: list[str]) -> list[str]:
    return [id for (id,) in rows(sql.ENDED, {"ids": ids})] if ids else []
