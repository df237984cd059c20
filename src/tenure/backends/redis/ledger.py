"""RedisLedger: the ticks of schedules; all its keys share one hash tag, so that each verb is one step.

The queues of the jobs may live elsewhere in a cluster: a tick is intended, its job is put, and the tick is enqueued.
"""

from collections.abc import Sequence

from tenure.backends.ledger import ENDED, TICK_STATES, Note, TickRecord, TickState, may_come_from
from tenure.backends.redis.connections import Line, Word
from tenure.backends.redis.names import Names
from tenure.backends.redis.patience import patiently
from tenure.backends.redis.scripts import Scripts

_CHUNK = 500


class RedisLedger:
    """What only looks is repeated while the server is away; the rest is told to whoever asked."""

    def __init__(self, line: Line, scripts: Scripts, names: Names) -> None:
        self._line = line
        self._scripts = scripts
        self._key = names.ledger

    def time(self) -> int:
        return int(patiently(lambda: self._scripts.run("ledger_time", self._key)))

    def enter(self, ticks: Sequence[TickRecord]) -> set[str]:
        ordered = sorted(ticks, key=lambda tick: tick.tick)  # should a later chunk fail, no gap is left behind
        new: set[str] = set()
        for first in range(0, len(ordered), _CHUNK):
            words: list[Word] = []
            for tick in ordered[first : first + _CHUNK]:
                words += [tick.id, tick.schedule, tick.tick, tick.due, tick.state, tick.why or ""]
            new |= {id.decode() for id in self._scripts.run("ledger_enter", self._key, words)}
        return new

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        words: list[Word] = []
        for each in notes:
            words += [each.id, each.state, each.why or "", _listed(may_come_from(each.state))]
        return self._ticks(self._scripts.run("ledger_note", self._key, words)) if notes else []

    def known(self, ids: Sequence[str]) -> dict[str, TickRecord]:
        if not ids:
            return {}
        values = patiently(lambda: self._line.ask("HMGET", f"{self._key}:ticks", *ids))
        return {id: _tick(id, value) for id, value in zip(ids, values, strict=True) if value}

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        words: list[Word] = [schedule, _listed(states or TICK_STATES), limit]
        return self._ticks(patiently(lambda: self._scripts.run("ledger_history", self._key, words)))

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        words: list[Word] = [_listed(states), before, limit]
        return self._ticks(patiently(lambda: self._scripts.run("ledger_unended", self._key, words)))

    def last_ticks(self) -> dict[str, int]:
        return self._numbers("last")

    def pause(self, schedule: str) -> None:
        now = self.time()
        patiently(lambda: self._line.ask("HSETNX", f"{self._key}:paused", schedule, now))

    def resume(self, schedule: str) -> None:
        patiently(lambda: self._line.ask("HDEL", f"{self._key}:paused", schedule))

    def paused(self) -> dict[str, int]:
        return self._numbers("paused")

    def forget(self, before: int, keep: int, limit: int) -> int:
        return int(self._scripts.run("ledger_forget", self._key, [before, keep, limit, _listed(ENDED)]))

    def _numbers(self, name: str) -> dict[str, int]:
        found = patiently(lambda: self._line.ask("HGETALL", f"{self._key}:{name}"))
        pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
        return {field.decode(): int(value) for field, value in pairs}

    def _ticks(self, found: Sequence[bytes]) -> list[TickRecord]:
        return [_tick(id.decode(), value) for id, value in zip(found[::2], found[1::2], strict=True)]


def _listed(states: Sequence[TickState]) -> str:
    return f" {' '.join(states)} "


def _tick(id: str, value: bytes) -> TickRecord:
    facts, schedule, why = value.decode().split("\n", 2)
    state, tick, due, entered, noted = facts.split(" ")
    return TickRecord(
        id=id,
        schedule=schedule,
        tick=int(tick),
        due=int(due),
        state=state,  # type: ignore[arg-type]
        why=why or None,
        entered_at=int(entered),
        noted_at=int(noted),
    )
