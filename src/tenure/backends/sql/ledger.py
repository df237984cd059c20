"""SqlLedger: the ticks of schedules, in the database of the jobs: a tick and its message are stored together."""

import secrets
from collections.abc import Sequence
from typing import Any

from tenure.backends.contract import Message
from tenure.backends.ledger import ENDED, TICK_STATES, Note, TickRecord, TickState, may_come_from
from tenure.backends.sql import ledger_words as sql
from tenure.backends.sql.dialect import Dialect, Rows

_CHUNK = 200  # rows a statement: databases bound the parameters of one
_CROWDED = 50  # schedules trimmed by count at a time


class SqlLedger:
    """Whoever inserts the row of a tick has it to do; `batch` tells which rows those are."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.time = dialect.now

    def enter(self, ticks: Sequence[TickRecord]) -> set[str]:
        return self._dialect.transact(lambda rows: self._enter(rows, ticks)) if ticks else set()

    def book(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        new: set[str] = set()

        def choose(rows: Rows) -> list[Message]:
            nonlocal new
            new = self._enter(rows, ticks)
            return [message for message in messages if message.id in new]

        if ticks:
            self._dialect.put_chosen(choose)
        return new

    def promote(self, messages: Sequence[Message]) -> set[str]:
        changed: list[str] = []

        def choose(rows: Rows) -> list[Message]:
            nonlocal changed
            ids = [message.id for message in messages]
            changed = _change(rows, ids, Note("", "enqueued"), self._dialect.time_in(rows))
            return [message for message in messages if message.id in changed]

        if messages:
            self._dialect.put_chosen(choose)
        return set(changed)

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        groups: dict[tuple[TickState, str | None], list[str]] = {}
        for each in notes:
            groups.setdefault((each.state, each.why), []).append(each.id)

        def write(rows: Rows) -> list[str]:
            now = self._dialect.time_in(rows)
            changes = (_change(rows, ids, Note("", *what), now) for what, ids in groups.items())
            return [id for changed in changes for id in changed]

        changed = self._dialect.transact(write) if notes else []
        return list(self.known(list(dict.fromkeys(changed))).values()) if changed else []

    def known(self, ids: Sequence[str]) -> dict[str, TickRecord]:
        rows = self._dialect.read(sql.KNOWN, {"ids": list(ids)}) if ids else []
        return {row[0]: _tick(row) for row in rows}

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        page = {"schedule": schedule, "states": list(states or TICK_STATES), "limit": limit}
        return [_tick(row) for row in self._dialect.read(sql.HISTORY, page)]

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        page = {"states": list(states), "before": before, "limit": limit}
        return [_tick(row) for row in self._dialect.read(sql.UNENDED, page)]

    def last_ticks(self) -> dict[str, int]:
        return dict(self._dialect.read(sql.LAST, {}))

    def pause(self, schedule: str) -> None:
        def write(rows: Rows) -> None:
            rows(sql.introduce(1), {"name0": schedule})
            rows(sql.PAUSE, {"name": schedule, "now": self._dialect.time_in(rows)})

        self._dialect.transact(write)

    def resume(self, schedule: str) -> None:
        self._dialect.transact(lambda rows: rows(sql.RESUME, {"name": schedule}))

    def paused(self) -> dict[str, int]:
        return dict(self._dialect.read(sql.PAUSED, {}))

    def forget(self, before: int, keep: int, limit: int) -> int:
        ended = {"states": list(ENDED)}
        gone = [id for (id,) in self._dialect.read(sql.OLD, {**ended, "before": before, "limit": limit})]
        for (schedule,) in self._dialect.read(sql.CROWDED, {"keep": keep, "limit": _CROWDED}):
            if len(gone) < limit:
                gone += self._beyond(schedule, keep, limit - len(gone))
        gone = list(dict.fromkeys(gone))
        if gone:
            self._dialect.transact(lambda rows: rows(sql.DROP, {"ids": gone}))
        return len(gone)

    def _beyond(self, schedule: str, keep: int, limit: int) -> list[str]:
        page = {"schedule": schedule, "states": list(ENDED), "limit": limit}
        found = self._dialect.read(sql.BEYOND, {"schedule": schedule, "keep": keep})
        return [id for (tick,) in found for (id,) in self._dialect.read(sql.OLDEST, {**page, "tick": tick})]

    def _enter(self, rows: Rows, ticks: Sequence[TickRecord]) -> set[str]:
        batch = secrets.randbits(62)
        ordered = sorted(ticks, key=lambda tick: tick.id)  # all take rows in one order, and so wait in no circle
        new: set[str] = set()
        for first in range(0, len(ordered), _CHUNK):
            chunk = ordered[first : first + _CHUNK]
            values = {"now": self._dialect.time_in(rows), "batch": batch, **_columns(chunk)}
            rows(sql.enter(len(chunk)), values)
            new |= {id for (id,) in rows(sql.NEW, {"ids": [tick.id for tick in chunk], "batch": batch})}
        latest: dict[str, int] = {}
        for tick in ordered:
            if tick.id in new:
                latest[tick.schedule] = max(tick.tick, latest.get(tick.schedule, 0))
        _advance(rows, latest)
        return new


def _change(rows: Rows, ids: Sequence[str], note: Note, now: int) -> list[str]:
    """Give these ticks the state of a note, if they may have it; returns which those were."""
    before = list(may_come_from(note.state))
    found = [id for (id,) in rows(sql.OF_NOTE, {"ids": sorted(ids), "states": before})]
    if found:
        rows(sql.NOTE, {"ids": found, "state": note.state, "why": note.why, "now": now})
    return found


def _advance(rows: Rows, latest: dict[str, int]) -> None:
    """Remember how far schedules have come."""
    names = sorted(latest)
    for first in range(0, len(names), _CHUNK):
        chunk = names[first : first + _CHUNK]
        rows(sql.introduce(len(chunk)), {f"name{number}": name for number, name in enumerate(chunk)})
    for moment in sorted(set(latest.values())):
        rows(sql.ADVANCE, {"tick": moment, "names": [name for name in names if latest[name] == moment]})


def _columns(ticks: Sequence[TickRecord]) -> dict[str, Any]:
    names = ("id", "schedule", "tick", "due", "state", "why")
    return {f"{name}{number}": getattr(tick, name) for number, tick in enumerate(ticks) for name in names}


def _tick(row: tuple[Any, ...]) -> TickRecord:
    id, schedule, tick, due, state, why, entered, noted = row
    return TickRecord(
        id=id, schedule=schedule, tick=tick, due=due, state=state, why=why, entered_at=entered, noted_at=noted
    )
