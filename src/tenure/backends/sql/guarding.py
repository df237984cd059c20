"""SqlGuarding: guards and the jobs that wait for them, in the same database as the jobs.

A change locks the rows of its keys in their order, decides in Python, writes, and wakes, all in one transaction:
its own, or that of the settlement it came with. A key with waiters has a row, so no idle worker looks at the waiters.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.backends.contract import Abandon, Ack, Nack, Park
from tenure.backends.sql import guards_words as sql
from tenure.backends.sql.dialect import Dialect, Pair, Rows
from tenure.backends.sql.steering import end
from tenure.clock import MICROSECOND
from tenure.guards.states import knock
from tenure.guards.store import Change, Row, effects, woken


class SqlGuarding:
    """The verbs of a Store, and those of a backend that parks."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def change(self, changes: Sequence[Change]) -> list[Any]:
        return self._dialect.hold(lambda rows: apply(self._dialect, rows, changes)) if changes else []

    def look(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        now = self._dialect.now()
        found = self._dialect.read(sql.SEEN, {"keys": list(keys), "now": now}) if keys else []
        return now, {key: state.encode() for key, state in found}

    def sweep(self, limit: int) -> int:
        now = self._dialect.now()
        old = [key for (key,) in self._dialect.read(sql.OLD_GUARDS, {"now": now, "limit": limit})]
        if old:
            self._dialect.hold(lambda rows: rows(sql.SWEEP, {"keys": old, "now": now}))
        return len(old)

    def park(self, owner: str, verdicts: Sequence[Park]) -> set[Pair]:
        """Returns the leases that were held; what somebody cancelled ends instead."""
        return self._dialect.transact(lambda rows: _park(self._dialect, rows, owner, verdicts))

    def rouse(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        now = self._dialect.now()
        if keys is None:
            found = self._dialect.read(sql.DUE, {"now": now, "limit": limit})
        else:
            found = self._dialect.read(sql.WAITED_FOR, {"keys": list(keys)}) if keys else []
        waits = {key: wake_at - now for key, wake_at in found}
        due = sorted(key for key, wait in waits.items() if wait <= 0)[:limit]
        if due:
            roused = self._dialect.hold(lambda rows: _rouse(self._dialect, rows, due))
            waits = {key: wait for key, wait in waits.items() if key not in due} | roused
        return {key: max(0, wait) / MICROSECOND for key, wait in waits.items()}

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        return dict(self._dialect.read(sql.HOLDERS, {"uniques": list(uniques)})) if uniques else {}


def apply(dialect: Dialect, rows: Rows, changes: Sequence[Change]) -> list[Any]:
    """Changes as part of a transaction; their answers."""
    keys = sorted({key for change in changes for key in change.keys})
    if dialect.reserve_guards:
        rows(dialect.reserve_guards, {"rows": _text(keys)})
    found = _locked(rows, keys)
    now = dialect.time_in(rows)
    answers, written, wakes = effects(changes, found, now)
    for key, count in wakes.items():
        woken(written[key], _wake(dialect, rows, key, count), now)
    reserved = {key: row for key, row in found.items() if row.state is None and not row.waiting}
    _keep(dialect, rows, {**reserved, **written}, found)
    return answers


def changes_of(verdicts: Sequence[Ack | Nack | Abandon], held: Container[Pair]) -> list[Change]:
    """What verdicts on leases that were held change besides."""
    changed = [verdict for verdict in verdicts if verdict.change is not None]
    return [v.change for v in changed if v.change is not None and (v.lease.id, v.lease.fence) in held]


def _park(dialect: Dialect, rows: Rows, owner: str, verdicts: Sequence[Park]) -> set[Pair]:
    tokens = [verdict.lease.token for verdict in verdicts]
    leases = {(id, fence): (key, asked) for id, fence, key, asked in rows(sql.HELD, {"keys": tokens, "owner": owner})}
    held = [verdict for verdict in verdicts if (verdict.lease.id, verdict.lease.fence) in leases]
    pairs = {(verdict.lease.id, verdict.lease.fence) for verdict in held}
    found = _locked(rows, sorted({verdict.key for verdict in held}))
    now = dialect.time_in(rows)
    waiters: dict[str, list[int]] = {}
    ready: list[int] = []
    for verdict in held:
        row = found.get(verdict.key)
        blocked = row is not None and row.wake_at > now
        (waiters.setdefault(verdict.key, []) if blocked else ready).append(verdict.lease.token)
    for guard, keys in waiters.items():
        rows(sql.PARK, {"guard": guard, "keys": keys})
    if waiters:
        rows(sql.WAIT, {"keys": sorted(waiters)})
    if ready:
        rows(sql.UNPARK, {"keys": ready})
    if held:
        rows(sql.DROP_LEASES, {"keys": [verdict.lease.token for verdict in held]})
    asked = [leases[pair][0] for pair in pairs if leases[pair][1]]
    if asked:
        end(rows, asked, now)
    return pairs


def _rouse(dialect: Dialect, rows: Rows, keys: list[str]) -> dict[str, int]:
    """Microseconds until the next look at each of these keys that still has waiters."""
    found = _locked(rows, keys)
    now = dialect.time_in(rows)
    due = {key: row for key, row in found.items() if row.waiting and row.wake_at <= now}
    for key, row in due.items():
        count, again = knock(row.state, now)
        woken(row, _wake(dialect, rows, key, count), now)
        row.wake_at = again if row.waiting else row.wake_at
    _keep(dialect, rows, due, found)
    return {key: row.wake_at - now for key, row in found.items() if row.waiting}


def _locked(rows: Rows, keys: list[str]) -> dict[str, Row]:
    """The rows of these keys, which nobody else changes until the transaction ends."""
    return {
        key: Row(None if state is None else state.encode(), expires, wake_at, bool(waiting))
        for key, state, expires, wake_at, waiting in rows(sql.GUARDS, {"keys": keys})
    }


def _wake(dialect: Dialect, rows: Rows, guard: str, count: int) -> int:
    """The first so many that wait for a key are ready again, in their place; how many there were."""
    heads = rows(sql.HEADS, {"guard": guard, "limit": count})
    if heads:
        keys = {"keys": [key for key, _ in heads]}
        rows(sql.WAKE, keys)
        rows(sql.DROP_PARKED, keys)
        dialect.tell(rows, {queue for _, queue in heads})
    return len(heads)


def _keep(dialect: Dialect, rows: Rows, changed: Mapping[str, Row], found: Mapping[str, Row]) -> None:
    kept = [_columns(key, row) for key, row in sorted(changed.items()) if row.state is not None or row.waiting]
    gone = [key for key, row in changed.items() if row.state is None and not row.waiting and key in found]
    if kept:
        rows(dialect.keep_guards, {"rows": _text(kept)})
    if gone:
        rows(sql.DROP_GUARDS, {"keys": gone})


def _columns(key: str, row: Row) -> tuple[str, str | None, int, int, int]:
    return key, None if row.state is None else row.state.decode(), row.expires, row.wake_at, int(row.waiting)


def _text(value: Iterable[Any]) -> str:
    return msgspec.json.encode(value).decode()
