"""MemoryLedger: the ledger of a backend that lives in this process."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec.structs import replace

from tenure.backends.ledger import ENDED_TICKS, Ledger, Note, TickRecord, TickState, is_by_hand, may_come_from
from tenure.backends.messages import Message
from tenure.clock import Clock


class MemoryLedger(Ledger):
    """Dictionaries, under the lock of the backend that it belongs to."""

    def __init__(
        self, clock: Clock, lock: AbstractContextManager[Any], put: Callable[[Sequence[Message]], list[str]]
    ) -> None:
        self._clock = clock
        self._lock = lock
        self._put = put
        self._ticks: dict[str, TickRecord] = {}
        self._last: dict[str, int] = {}
        self._paused: dict[str, int] = {}
        self.booking = self

    def time(self) -> int:
        return self._clock.now()

    def enter(self, ticks: Sequence[TickRecord]) -> set[str]:
        return self.book(ticks, ())

    def book(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        with self._lock:
            now = self._clock.now()
            fresh = {tick.id: tick for tick in reversed(ticks) if tick.id not in self._ticks}
            self._put([message for message in messages if message.id in fresh])
            for tick in fresh.values():
                self._ticks[tick.id] = replace(tick, entered_at=now, noted_at=now)
                if not is_by_hand(tick.tick):
                    self._last[tick.schedule] = max(tick.tick, self._last.get(tick.schedule, 0))
            return set(fresh)

    def promote(self, messages: Sequence[Message]) -> set[str]:
        with self._lock:
            changed = {tick.id for tick in self.note([Note(message.id, "enqueued") for message in messages])}
            self._put([message for message in messages if message.id in changed])
            return changed

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        with self._lock:
            changed: dict[str, TickRecord] = {}
            for note in notes:
                tick = self._ticks.get(note.id)
                if tick is not None and tick.state in may_come_from(note.state):
                    tick = replace(tick, state=note.state, why=note.why, noted_at=self._clock.now())
                    changed[note.id] = self._ticks[note.id] = tick
            return list(changed.values())

    def known(self, ids: Sequence[str]) -> dict[str, TickRecord]:
        with self._lock:
            return {id: self._ticks[id] for id in ids if id in self._ticks}

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        with self._lock:
            found = [tick for tick in self._ticks.values() if tick.schedule == schedule]
        found = [tick for tick in found if not states or tick.state in states]
        return sorted(found, key=lambda tick: -tick.tick)[:limit]

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        with self._lock:
            found = [tick for tick in self._ticks.values() if tick.state in states and tick.noted_at < before]
        return sorted(found, key=lambda tick: (tick.noted_at, tick.id))[:limit]

    def last_ticks(self) -> dict[str, int]:
        with self._lock:
            now = self._clock.now()
            found = {name: tick for name, tick in self._last.items() if tick <= now}
            for each in self._ticks.values():
                if self._last.get(each.schedule, 0) > now >= each.tick:
                    found[each.schedule] = max(each.tick, found.get(each.schedule, 0))
            return found

    def pause(self, schedule: str) -> None:
        with self._lock:
            self._paused.setdefault(schedule, self._clock.now())

    def resume(self, schedule: str) -> None:
        with self._lock:
            self._paused.pop(schedule, None)

    def paused(self) -> dict[str, int]:
        with self._lock:
            return dict(self._paused)

    def forget(self, before: int, keep: int, limit: int) -> int:
        with self._lock:
            seen: Counter[str] = Counter()
            gone = []
            for tick in sorted(self._ticks.values(), key=lambda tick: -tick.tick):
                seen[tick.schedule] += 1
                if tick.state in ENDED_TICKS and (tick.noted_at < before or seen[tick.schedule] > keep):
                    gone.append(tick.id)
            for id in gone[:limit]:
                del self._ticks[id]
            return len(gone[:limit])
