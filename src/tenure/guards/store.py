"""Store: where guards keep their states; every guard uses one verb, `change`.

A change names keys and a pure function of their states. A store applies it atomically, by its own clock, so no guard
reads first and writes later. Every state expires, and an expired state is never seen again. Times are UTC microseconds.
"""

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from tenure.clock import MICROSECOND, Clock
from tenure.guards.states import WAKE_ALL, WAKE_GRACE_MICROSECONDS, Hold, extend_holds, lapsed_holds, plan_wake


class KeyUpdate(Struct, frozen=True, gc=False):
    """The new state of one key; a `state` of None deletes it.

    `expires` is when the store deletes the state. `wake_at` is when a parked job should try again if nothing changes
    before (0: at once). `wake` is how many parked jobs to wake now.
    """

    state: bytes | None
    expires: int = 0
    wake_at: int = 0
    wake: int = 0


class KeyWait(NamedTuple):
    """The key that a refused job waits for, and the time when it may try again if the key does not change before."""

    key: str
    until: int


class Decision(NamedTuple):
    """The answer to the caller, and an update for each key; None leaves a key unchanged.

    A refusal has the key to `wait` for.
    """

    answer: Any
    updates: Sequence[KeyUpdate | None] = ()
    wait: KeyWait | None = None


Decide = Callable[[Sequence[bytes | None], int], Decision]


class Change(Struct, frozen=True):
    """Keys and a decision about them; `decide` is pure, and a store may call it again after a conflict."""

    keys: tuple[str, ...]
    decide: Decide


class Row(Struct, gc=False):
    """A key as a store keeps it; with `waiting`, jobs may be parked under it."""

    state: bytes | None = None
    expires: int = 0
    wake_at: int = 0
    waiting: bool = False

    def current(self, now: int) -> bytes | None:
        """The state, unless it has expired."""
        return self.state if self.expires > now else None


@runtime_checkable
class Store(Protocol):
    """Keeps the states of guards; the conformance suite says what each verb promises."""

    def change(self, changes: Sequence[Change]) -> list[Any]:
        """Apply changes in order, each atomically; returns their answers."""
        ...

    def read(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        """The time by the store's clock, and the states of these keys; a key without a state is left out."""
        ...

    def search(self, prefix: str, limit: int, after: str = "") -> tuple[int, dict[str, Row]]:
        """The time by the store's clock, and up to `limit` keys that begin so and have a state or waiting jobs.

        They are in order; `after` is the last key of the page before.
        """
        ...

    def sweep(self, limit: int) -> int:
        """Delete up to `limit` expired states for which no job waits; returns how many."""
        ...


class Effects(NamedTuple):
    """The effects of a batch of changes: the answers, the rows to write, and how many jobs to wake by key."""

    answers: list[Any]
    rows: dict[str, Row]
    wakes: dict[str, int]


def apply_changes(changes: Iterable[Change], rows: Mapping[str, Row], now: int) -> Effects:
    """Decide a batch on rows that the store has read; a later change sees what an earlier one did."""
    answers: list[Any] = []
    written: dict[str, Row] = {}
    wakes: dict[str, int] = {}
    for change in changes:
        current = [written.get(key) or rows.get(key) or _EMPTY for key in change.keys]
        answer, updates, wait = change.decide([row.current(now) for row in current], now)
        answers.append(answer)
        if wait is not None:
            _record_wait(wait, written, rows, now)
        for key, row, update in zip(change.keys, current, updates, strict=False):
            if update is not None:
                written[key] = Row(update.state, update.expires, update.wake_at, row.waiting)
                if update.wake and row.waiting:
                    wakes[key] = min(WAKE_ALL, wakes.get(key, 0) + update.wake)
    return Effects(answers, written, wakes)


def _record_wait(wait: KeyWait, written: dict[str, Row], rows: Mapping[str, Row], now: int) -> None:
    """Let the refused job be parked, although a job of the same key with a higher limit has recorded that it is free.

    A job is not parked under a free key: the worker would lease it and refuse it again and again.
    """
    row = written.get(wait.key) or rows.get(wait.key) or _EMPTY
    if row.wake_at <= now < wait.until:
        written[wait.key] = replace(row, wake_at=wait.until)


def lapsed_in(rows: Mapping[str, Row], now: int) -> list[Hold]:
    """The holds that ended without a settlement; a store looks up which of their leases are still held."""
    return [hold for row in rows.values() for hold in lapsed_holds(row.current(now), now)]


def keep_leased(rows: dict[str, Row], leases: Container[tuple[str, int]], now: int) -> dict[str, Row]:
    """Extend the lapsed holds of these leases, and return the rows that this changed; the store writes them.

    A job whose lease is not reaped may have ended well and wait for its settlement: no other job takes its guards.
    """
    changed: dict[str, Row] = {}
    until = now + WAKE_GRACE_MICROSECONDS
    for key, row in rows.items():
        if row.state is not None and any((hold.id, hold.fence) in leases for hold in lapsed_holds(row.state, now)):
            state = extend_holds(row.state, leases, until)
            changed[key] = Row(state, max(row.expires, until), until, row.waiting)
    rows.update(changed)
    return changed


def record_wake(row: Row, count: int, now: int) -> None:
    """Record in a row that `count` parked jobs were woken; the next is woken after they had time to take the guard."""
    if count:
        row.wake_at = max(row.wake_at, now + WAKE_GRACE_MICROSECONDS)
    else:
        row.waiting = False


_EMPTY = Row()

Wake = Callable[[str, int], int]
IsLeased = Callable[[Hold], bool]


def wake_none(key: str, count: int) -> int:  # noqa: ARG001 - the signature of Wake
    """For a store without parked jobs."""
    return 0


def no_leases(hold: Hold) -> bool:  # noqa: ARG001 - the signature of IsLeased
    """For a store without leases."""
    return False


class MemoryStore:
    """A store for one process: a dictionary under a lock.

    A backend may pass its own lock, a function that wakes jobs parked under a key and returns how many it woke, and one
    that says whether the lease of a hold is held.
    """

    def __init__(
        self,
        clock: Clock,
        lock: "threading.Condition | None" = None,
        wake: Wake = wake_none,
        is_leased: IsLeased = no_leases,
    ) -> None:
        self._clock = clock
        self._is_leased = is_leased
        self._lock = lock or threading.Condition()
        self._wake = wake
        self._rows: dict[str, Row] = {}

    def change(self, changes: Sequence[Change]) -> list[Any]:
        with self._lock:
            now = self._clock.now()
            named = {key: self._rows[key] for change in changes for key in change.keys if key in self._rows}
            leases = {(hold.id, hold.fence) for hold in lapsed_in(named, now) if self._is_leased(hold)}
            if leases:
                self._rows.update(keep_leased(named, leases, now))
            answers, rows, wakes = apply_changes(changes, self._rows, now)
            for key, row in rows.items():
                if key in wakes:
                    record_wake(row, self._wake(key, wakes[key]), now)
                self._write(key, row)
            return answers

    def read(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        with self._lock:
            now = self._clock.now()
            states = {key: self._rows[key].current(now) for key in keys if key in self._rows}
            return now, {key: state for key, state in states.items() if state is not None}

    def search(self, prefix: str, limit: int, after: str = "") -> tuple[int, dict[str, Row]]:
        with self._lock:
            now = self._clock.now()
            found = [(key, row) for key, row in sorted(self._rows.items()) if key.startswith(prefix) and key > after]
            shown = [(key, row) for key, row in found if row.waiting or row.current(now) is not None]
            return now, {key: replace(row) for key, row in shown[:limit]}

    def sweep(self, limit: int) -> int:
        with self._lock:
            now = self._clock.now()
            old = [key for key, row in self._rows.items() if row.expires <= now and not row.waiting][:limit]
            for key in old:
                del self._rows[key]
            return len(old)

    def wait_for(self, key: str) -> bool:
        """Whether a job must wait for this key; if so, the row records that jobs are parked."""
        row = self._rows.get(key)
        if row is None or row.wake_at <= self._clock.now():
            return False
        row.waiting = True
        return True

    def rouse(self, keys: Iterable[str] | None, limit: int) -> dict[str, float]:
        """Wake parked jobs of up to `limit` keys that are due, among these keys or all.

        Returns the seconds until each key with parked jobs is due.
        """
        with self._lock:
            now = self._clock.now()
            known = self._rows if keys is None else [key for key in keys if key in self._rows]
            waiting = [key for key in known if self._rows[key].waiting]
            for key in [key for key in waiting if self._rows[key].wake_at <= now][:limit]:
                self._wake_due(key, self._rows[key], now)
            rows = [(key, self._rows[key]) for key in waiting if key in self._rows]
            return {key: max(0, row.wake_at - now) / MICROSECOND for key, row in rows if row.waiting}

    def _wake_due(self, key: str, row: Row, now: int) -> None:
        count, next_check = plan_wake(row.state, now)
        record_wake(row, self._wake(key, count), now)
        if row.waiting:
            row.wake_at = next_check
        self._write(key, row)

    def _write(self, key: str, row: Row) -> None:
        if row.state is None and not row.waiting:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
