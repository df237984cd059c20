"""SqlGuards: the guards and the jobs that wait for them, in the database of the jobs.

A change locks the rows of its keys in order, decides in Python, writes, and wakes waiting jobs, all in one transaction:
its own, or that of the settlement it came with. A transaction locks guards before leases, so no transaction that waits
for a guard keeps a lease from being renewed. A key with waiters has a row, so idle workers do not read the waiters.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.backends.messages import SUSPECT, Abandon, Ack, Nack, Park, suspects_key
from tenure.backends.sql.batches import fences_of_leased
from tenure.backends.sql.control import DROP_PARKED, KEEP_SUSPECTS, end_waiting
from tenure.backends.sql.dialect import Dialect, Pair, Rows
from tenure.backends.sql.jobs import KEYS
from tenure.clock import MICROSECOND
from tenure.guards.states import plan_wake
from tenure.guards.store import Change, Row, apply_changes, keep_leased, lapsed_in, record_wake

GUARDS = """
SELECT key, state, expires, wake_at, waiting FROM tenure_guard WHERE key IN :keys ORDER BY key FOR UPDATE
"""
FREE_GUARDS = GUARDS.rstrip() + " SKIP LOCKED"
SEEN = "SELECT key, state FROM tenure_guard WHERE key IN :keys AND expires > :now AND state IS NOT NULL"
LIST = """
SELECT key, state, expires, wake_at, waiting FROM tenure_guard
WHERE key >= :first AND key <> :after AND key < :end AND (waiting = 1 OR (expires > :now AND state IS NOT NULL))
ORDER BY key LIMIT :limit
"""
DROP_GUARDS = "DELETE FROM tenure_guard WHERE key IN :keys"
OLD_GUARDS = "SELECT key FROM tenure_guard WHERE expires <= :now AND waiting = 0 ORDER BY expires LIMIT :limit"
SWEEP = "DELETE FROM tenure_guard WHERE key IN :keys AND expires <= :now AND waiting = 0"
WAIT = "UPDATE tenure_guard SET waiting = 1 WHERE key IN :keys"
DUE = "SELECT key, wake_at FROM tenure_guard WHERE waiting = 1 AND wake_at <= :now ORDER BY wake_at LIMIT :limit"
WAITED_FOR = "SELECT key, wake_at FROM tenure_guard WHERE key IN :keys AND waiting = 1"

HELD = """
SELECT key, fence, asked FROM tenure_lease WHERE key IN :keys AND owner = :owner ORDER BY key FOR UPDATE
"""
PARK = """
INSERT INTO tenure_parked (key, guard, queue, rank, attempts, crashes, fence, vanished)
SELECT key, :guard, queue, rank, attempts, crashes, fence, vanished FROM tenure_lease WHERE key IN :keys
"""
UNPARK = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
SELECT queue, rank, key, attempts, crashes, fence, vanished FROM tenure_lease WHERE key IN :keys
"""
DROP_LEASES = "DELETE FROM tenure_lease WHERE key IN :keys"
FIRST_WAITERS = """
SELECT key, queue, vanished FROM tenure_parked WHERE guard = :guard ORDER BY rank, key LIMIT :limit FOR UPDATE
"""
WAKE = """
INSERT INTO tenure_ready (queue, rank, key, attempts, crashes, fence, vanished)
SELECT queue, rank, key, attempts, crashes, fence, vanished FROM tenure_parked WHERE key IN :keys
"""
WAITERS = """
SELECT queue, COUNT(*) FROM (SELECT queue FROM tenure_parked WHERE guard = :guard ORDER BY rank, key LIMIT :limit) AS w
GROUP BY queue
"""
HOLDERS = "SELECT only_one, id FROM tenure_job WHERE only_one IN :uniques"


class SqlGuards:
    """The guard store of a SQL backend; it also parks jobs and finds the holders of unique texts."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def change(self, changes: Sequence[Change]) -> list[Any]:
        def work(rows: Rows) -> list[Any]:
            return apply(self._dialect, rows, changes, lock_guards(self._dialect, rows, changes))

        return self._dialect.transact_volatile(work) if changes else []

    def read(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        now = self._dialect.now()
        found = self._dialect.read(SEEN, {"keys": list(keys), "now": now}) if keys else []
        return now, {key: state.encode() for key, state in found}

    def search(self, prefix: str, limit: int, after: str = "") -> tuple[int, dict[str, Row]]:
        now = self._dialect.now()
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else "\U0010ffff"
        first = max(prefix, after)
        found = self._dialect.read(LIST, {"first": first, "after": after, "end": end, "now": now, "limit": limit})
        return now, {key: _row(*values) for key, *values in found}

    def sweep(self, limit: int) -> int:
        now = self._dialect.now()
        old = [key for (key,) in self._dialect.read(OLD_GUARDS, {"now": now, "limit": limit})]
        if old:
            self._dialect.transact_volatile(lambda rows: rows(SWEEP, {"keys": old, "now": now}))
        return len(old)

    def park(self, owner: str, verdicts: Sequence[Park]) -> set[Pair]:
        """Park jobs; return the leases that were held. A job that a user cancelled ends instead."""
        return self._dialect.transact(lambda rows: _park_leases(self._dialect, rows, owner, verdicts))

    def waiters(self, keys: Sequence[str], limit: int) -> dict[str, dict[str, int]]:
        found = {key: self._dialect.read(WAITERS, {"guard": key, "limit": limit}) for key in keys}
        return {key: dict(counts) for key, counts in found.items() if counts}

    def wake(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        now = self._dialect.now()
        if keys is None:
            found = self._dialect.read(DUE, {"now": now, "limit": limit})
        else:
            found = self._dialect.read(WAITED_FOR, {"keys": list(keys)}) if keys else []
        waits = {key: wake_at - now for key, wake_at in found}
        due = sorted(key for key, wait in waits.items() if wait <= 0)[:limit]
        if due:
            woken_now = self._dialect.transact_volatile(lambda rows: _wake_due(self._dialect, rows, due))
            waits = {key: wait for key, wait in waits.items() if key not in due} | woken_now
        return {key: max(0, wait) / MICROSECOND for key, wait in waits.items()}

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        return dict(self._dialect.read(HOLDERS, {"uniques": list(uniques)})) if uniques else {}


def lock_guards(dialect: Dialect, rows: Rows, changes: Sequence[Change]) -> dict[str, Row]:
    """The rows of the keys of these changes, locked until the transaction ends."""
    keys = sorted({key for change in changes for key in change.keys})
    if dialect.reserve_guards:
        rows(dialect.reserve_guards, {"rows": _text(keys)})
    return _locked(rows, keys)


def apply(dialect: Dialect, rows: Rows, changes: Sequence[Change], found: dict[str, Row]) -> list[Any]:
    """Apply changes to guards that were locked, inside the same transaction; return their answers."""
    now = dialect.time_in(rows)
    lapsed = [hold.id for hold in lapsed_in(found, now)]
    leased = _leased(rows, lapsed) if lapsed else set()
    kept = keep_leased(found, leased, now) if leased else {}
    answers, written, wakes = apply_changes(changes, found, now)
    for key, count in wakes.items():
        record_wake(written[key], _wake_waiters(dialect, rows, key, count), now)
    reserved = {key: row for key, row in found.items() if row.state is None and not row.waiting}
    _keep(dialect, rows, {**reserved, **kept, **written}, found)
    return answers


def _leased(rows: Rows, ids: list[str]) -> set[Pair]:
    id_of: dict[int, str] = dict(rows(KEYS, {"ids": ids}))
    return {(id_of[key], fence) for key, fence in fences_of_leased(rows, list(id_of)).items()}


def settlement_changes(verdicts: Sequence[Ack | Nack | Abandon]) -> list[Change]:
    """The guard changes of these verdicts."""
    return [verdict.change for verdict in verdicts if verdict.change is not None]


def changes_of(verdicts: Sequence[Ack | Nack | Abandon], held: Container[Pair]) -> list[Change]:
    """The guard changes of the verdicts whose leases were held."""
    changed = [verdict for verdict in verdicts if verdict.change is not None]
    return [v.change for v in changed if v.change is not None and (v.lease.id, v.lease.fence) in held]


def _park_leases(dialect: Dialect, rows: Rows, owner: str, verdicts: Sequence[Park]) -> set[Pair]:
    found = _locked(rows, sorted({verdict.key for verdict in verdicts}))
    tokens = [verdict.lease.token for verdict in verdicts]
    asked_of = {(key, fence): asked for key, fence, asked in rows(HELD, {"keys": tokens, "owner": owner})}
    held = [verdict for verdict in verdicts if (verdict.lease.token, verdict.lease.fence) in asked_of]
    pairs = {(verdict.lease.id, verdict.lease.fence) for verdict in held}
    now = dialect.time_in(rows)
    waiters: dict[str, list[int]] = {}
    suspects: dict[str, list[int]] = {}
    ready: list[int] = []
    for verdict in held:
        row = found.get(verdict.key)
        blocked = row is not None and row.wake_at > now
        if blocked:
            waiters.setdefault(verdict.key, []).append(verdict.lease.token)
        elif verdict.lease.alone:
            suspects.setdefault(suspects_key(verdict.lease.queue), []).append(verdict.lease.token)
        else:
            ready.append(verdict.lease.token)
    for guard, keys in {**waiters, **suspects}.items():
        rows(PARK, {"guard": guard, "keys": keys})
    if waiters:
        rows(WAIT, {"keys": sorted(waiters)})
    if ready:
        rows(UNPARK, {"keys": ready})
    if held:
        rows(DROP_LEASES, {"keys": [verdict.lease.token for verdict in held]})
    asked = [v.lease.token for v in held if asked_of[v.lease.token, v.lease.fence]]
    if asked:
        end_waiting(rows, asked, now)
    return pairs


def _wake_due(dialect: Dialect, rows: Rows, keys: list[str]) -> dict[str, int]:
    """Wake the waiters of keys that are due; return the microseconds until each remaining key is due.

    A guard that another transaction changes at this moment is left out: that transaction wakes, or a later call does.
    """
    found = _locked(rows, keys, FREE_GUARDS)
    now = dialect.time_in(rows)
    due = {key: row for key, row in found.items() if row.waiting and row.wake_at <= now}
    for key, row in due.items():
        count, again = plan_wake(row.state, now)
        record_wake(row, _wake_waiters(dialect, rows, key, count), now)
        row.wake_at = again if row.waiting else row.wake_at
    _keep(dialect, rows, due, found)
    return {key: row.wake_at - now for key, row in found.items() if row.waiting}


def _locked(rows: Rows, keys: list[str], statement: str = GUARDS) -> dict[str, Row]:
    """The rows of these keys, locked until the transaction ends."""
    return {key: _row(*values) for key, *values in rows(statement, {"keys": keys})}


def _row(state: str | None, expires: int, wake_at: int, waiting: int) -> Row:
    return Row(None if state is None else state.encode(), expires, wake_at, bool(waiting))


def _wake_waiters(dialect: Dialect, rows: Rows, guard: str, count: int) -> int:
    """Make the first `count` waiters of a key ready again, in their place; return how many there were.

    A suspect among them waits apart, for the next worker that leases it alone.
    """
    heads = rows(FIRST_WAITERS, {"guard": guard, "limit": count})
    if ready := [(key, queue) for key, queue, vanished in heads if vanished != SUSPECT]:
        keys = {"keys": [key for key, _ in ready]}
        rows(WAKE, keys)
        rows(DROP_PARKED, keys)
        dialect.wake_workers(rows, {queue for _, queue in ready})
    for key, queue, vanished in heads:
        if vanished == SUSPECT:
            rows(KEEP_SUSPECTS, {"keys": [key], "queue": queue, "guard": suspects_key(queue)})
    return len(heads)


def _keep(dialect: Dialect, rows: Rows, changed: Mapping[str, Row], found: Mapping[str, Row]) -> None:
    kept = [_columns(key, row) for key, row in sorted(changed.items()) if row.state is not None or row.waiting]
    gone = [key for key, row in changed.items() if row.state is None and not row.waiting and key in found]
    if kept:
        rows(dialect.save_guards, {"rows": _text(kept)})
    if gone:
        rows(DROP_GUARDS, {"keys": gone})


def _columns(key: str, row: Row) -> tuple[str, str | None, int, int, int]:
    return key, None if row.state is None else row.state.decode(), row.expires, row.wake_at, int(row.waiting)


def _text(value: Iterable[Any]) -> str:
    return msgspec.json.encode(value).decode()
