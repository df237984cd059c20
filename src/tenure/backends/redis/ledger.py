"""RedisLedger: the ticks of schedules; all its keys share one hash tag, so that each verb is one step.

In a cluster the queues may be on other servers, so three steps follow each other: the tick is entered as intended, its
job is put, and the tick is noted as enqueued.
"""

from collections.abc import Iterable, Sequence

from tenure.backends.ledger import ENDED_TICKS, TICK_STATES, Ledger, Note, TickRecord, TickState, may_come_from
from tenure.backends.redis.connections import Argument, RedisClient, with_retries
from tenure.backends.redis.scripts import KeyNames, Scripts

_CHUNK = 500


class RedisLedger(Ledger):
    """Repeats reads while the server does not answer; errors of writes go to the caller."""

    def __init__(self, client: RedisClient, scripts: Scripts, names: KeyNames) -> None:
        self._client = client
        self._scripts = scripts
        self._key = names.ledger

    def time(self) -> int:
        return int(with_retries(lambda: self._scripts.run("ledger_time", self._key)))

    def enter(self, ticks: Sequence[TickRecord]) -> set[str]:
        ordered = sorted(ticks, key=lambda tick: tick.tick)  # if a later chunk fails, it leaves no gap
        new: set[str] = set()
        for first in range(0, len(ordered), _CHUNK):
            arguments: list[Argument] = []
            for tick in ordered[first : first + _CHUNK]:
                arguments += [tick.id, tick.schedule, tick.tick, tick.due, tick.state, tick.why or ""]
            new |= {id.decode() for id in self._scripts.run("ledger_enter", self._key, arguments)}
        return new

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        arguments: list[Argument] = []
        for each in notes:
            arguments += [each.id, each.state, each.why or "", _listed(may_come_from(each.state))]
        return self._ticks(self._scripts.run("ledger_note", self._key, arguments)) if notes else []

    def known(self, ids: Sequence[str]) -> dict[str, TickRecord]:
        if not ids:
            return {}
        values = with_retries(lambda: self._client.ask("HMGET", f"{self._key}:ticks", *ids))
        return {id: _tick(id, value) for id, value in zip(ids, values, strict=True) if value}

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        arguments: list[Argument] = [schedule, _listed(states or TICK_STATES), limit]
        return self._ticks(with_retries(lambda: self._scripts.run("ledger_history", self._key, arguments)))

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        arguments: list[Argument] = [_listed(states), before, limit]
        return self._ticks(with_retries(lambda: self._scripts.run("ledger_unended", self._key, arguments)))

    def last_ticks(self) -> dict[str, int]:
        now = self.time()
        last = self._numbers("last")
        found = {name: tick for name, tick in last.items() if tick <= now}
        for name in last.keys() - found.keys():
            found |= {tick.schedule: tick.tick for tick in self._newest(name, now)}
        return found

    def pause(self, schedule: str) -> None:
        now = self.time()
        with_retries(lambda: self._client.ask("HSETNX", f"{self._key}:paused", schedule, now))

    def resume(self, schedule: str) -> None:
        with_retries(lambda: self._client.ask("HDEL", f"{self._key}:paused", schedule))

    def paused(self) -> dict[str, int]:
        return self._numbers("paused")

    def forget(self, before: int, keep: int, limit: int) -> int:
        return int(self._scripts.run("ledger_forget", self._key, [before, keep, limit, _listed(ENDED_TICKS)]))

    def _newest(self, schedule: str, until: int) -> Iterable[TickRecord]:
        """The newest stored tick of a schedule up to a time; empty if there is none."""
        page: list[Argument] = [f"{self._key}:of:{schedule}", until, "-inf", "LIMIT", 0, 1]
        found = with_retries(lambda: self._client.ask("ZREVRANGEBYSCORE", *page))
        return self.known([id.decode() for id in found]).values()

    def _numbers(self, name: str) -> dict[str, int]:
        found = with_retries(lambda: self._client.ask("HGETALL", f"{self._key}:{name}"))
        pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
        return {field.decode(): int(value) for field, value in pairs}

    def _ticks(self, found: Sequence[bytes]) -> list[TickRecord]:
        return [_tick(id.decode(), value) for id, value in zip(found[::2], found[1::2], strict=True)]


def _listed(states: Sequence[TickState]) -> str:
    return f" {' '.join(states)} "


def _tick(id: str, value: bytes) -> TickRecord:
    fields, schedule, why = value.decode().split("\n", 2)
    state, tick, due, entered, noted = fields.split(" ")
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
