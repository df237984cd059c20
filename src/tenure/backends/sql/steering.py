"""SqlSteering: jobs are cancelled, and followed, from outside.

A request to cancel is a mark on the lease row, so it goes when the lease goes.
Whoever returns a lease with that mark ends the job in the same transaction, with `end`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.backends.contract import ON_REQUEST, Fate, Lease
from tenure.backends.sql.sqlite import statements as sql
from tenure.backends.sql.sqlite.database import Database
from tenure.clock import Clock
from tenure.definition.progress import Progress


class SqlSteering:
    """Looks at the leases of one owner."""

    def __init__(self, database: Database, clock: Clock, owner: str) -> None:
        self._database = database
        self._clock = clock
        self._owner = owner

    def cancel(self, ids: Sequence[str]) -> dict[str, Fate]:
        wanted = {"ids": _text(list(dict.fromkeys(ids)))}
        fates: dict[str, Fate] = dict.fromkeys(ids, "unknown")
        with self._database.write() as tx:
            fates.update((id, "too_late") for (id,) in tx.execute(sql.ENDED_IDS, wanted))
            live = tx.execute(sql.CANCELLABLE, wanted).fetchall()
            fates.update((id, "asked" if leased else "cancelled") for id, _, leased in live)
            tx.execute(sql.ASK, {"keys": _text([key for _, key, leased in live if leased])})
            self.end(tx, _text([key for _, key, leased in live if not leased]))
        return fates

    def end(self, tx: Any, keys: str) -> None:
        """Of these keys, a JSON array, end those that wait."""
        batch = {"keys": keys, "now": self._clock.now(), "reason": ON_REQUEST}
        for statement in (sql.CANCEL_READY, sql.CANCEL_DELAYED, sql.DROP_READY, sql.DROP_DELAYED, sql.DROP_UNLEASED):
            tx.execute(statement, batch)

    def asked_to_stop(self, leases: Sequence[Lease]) -> list[Lease]:
        asked = set(self._database.read(sql.ASKED, {"owner": self._owner}))
        return [lease for lease in leases if (lease.id, lease.fence) in asked and lease.owner == self._owner]

    def note_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        mine = [item for item in items if item[0].owner == self._owner]
        noted = _text([(lease.id, lease.fence, progress.done, progress.total) for lease, progress in mine])
        with self._database.write() as tx:
            tx.execute(sql.NOTE_PROGRESS, {"items": noted, "owner": self._owner})


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
