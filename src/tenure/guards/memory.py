"""MemoryStore: guards for the jobs of one process."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tenure.clock import MICROSECOND, Clock
from tenure.guards.states import knock
from tenure.guards.store import Change, Row, effects, woken

Wake = Callable[[str, int], int]


def nobody(key: str, count: int) -> int:  # noqa: ARG001 - one signature for all who wake
    """Where no job is parked, none is woken."""
    return 0


class MemoryStore:
    """A dictionary under a lock; a backend may give its own lock, and wake the jobs it has parked."""

    def __init__(self, clock: Clock, lock: "threading.Condition | None" = None, wake: Wake = nobody) -> None:
        self._clock = clock
        self._lock = lock or threading.Condition()
        self._wake = wake
        self._rows: dict[str, Row] = {}

    def change(self, changes: Sequence[Change]) -> list[Any]:
        with self._lock:
            now = self._clock.now()
            answers, rows, wakes = effects(changes, self._rows, now)
            for key, row in rows.items():
                if key in wakes:
                    woken(row, self._wake(key, wakes[key]), now)
                self._keep(key, row)
            return answers

    def look(self, keys: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        with self._lock:
            now = self._clock.now()
            seen = {key: self._rows[key].seen(now) for key in keys if key in self._rows}
            return now, {key: state for key, state in seen.items() if state is not None}

    def sweep(self, limit: int) -> int:
        with self._lock:
            now = self._clock.now()
            old = [key for key, row in self._rows.items() if row.expires <= now and not row.waiting][:limit]
            for key in old:
                del self._rows[key]
            return len(old)

    def wait_for(self, key: str) -> bool:
        """Whether a job must wait for this key; if so its waiters are remembered."""
        row = self._rows.get(key)
        if row is None or row.wake_at <= self._clock.now():
            return False
        row.waiting = True
        return True

    def rouse(self, keys: Iterable[str] | None, limit: int) -> dict[str, float]:
        """Wake the heads of these keys, or of any, whose time has come; seconds until the next is due, where one is."""
        with self._lock:
            now = self._clock.now()
            asked = self._rows if keys is None else [key for key in keys if key in self._rows]
            waiting = [key for key in asked if self._rows[key].waiting]
            for key in [key for key in waiting if self._rows[key].wake_at <= now][:limit]:
                self._rouse(key, self._rows[key], now)
            rows = [(key, self._rows[key]) for key in waiting if key in self._rows]
            return {key: max(0, row.wake_at - now) / MICROSECOND for key, row in rows if row.waiting}

    def _rouse(self, key: str, row: Row, now: int) -> None:
        count, again = knock(row.state, now)
        woken(row, self._wake(key, count), now)
        if row.waiting:
            row.wake_at = again
        self._keep(key, row)

    def _keep(self, key: str, row: Row) -> None:
        if row.state is None and not row.waiting:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
