"""SqlLedger: the ticks of schedules, in the database of the jobs: a tick and its message are stored together."""

import secrets
from collections.abc import Sequence
from typing import Any

from tenure.backends.ledger import (
    ENDED_TICKS,
    TICK_STATES,
    Ledger,
    Note,
    TickRecord,
    TickState,
    is_by_hand,
    may_come_from,
)
from tenure.backends.messages import Message
from tenure.backends.sql.dialect import Dialect, Rows

_COLUMNS = "id, schedule, tick, due, state, why, entered, noted"
_TICKS = f"SELECT {_COLUMNS} FROM tenure_tick"


def enter_statement(count: int) -> str:
    """The statement that enters `count` ticks at once."""
    names = ("id", "schedule", "tick", "due", "state", "why")
    rows = (f"({', '.join(f':{name}{number}' for name in names)}, :now, :now, :batch)" for number in range(count))
    return f"INSERT INTO tenure_tick ({_COLUMNS}, batch) VALUES {', '.join(rows)} ON CONFLICT DO NOTHING"


def schedule_statement(count: int) -> str:
    """The statement that adds `count` schedules."""
    rows = ", ".join(f"(:name{number}, 0, 0)" for number in range(count))
    return f"INSERT INTO tenure_schedule (name, last, paused) VALUES {rows} ON CONFLICT DO NOTHING"


def histories_statement(count: int) -> str:
    """The statement that reads the newest ticks of `count` schedules: MariaDB needs 4 ms for a statement of one."""
    return " UNION ALL ".join(
        f"SELECT * FROM ({_TICKS} WHERE schedule = :name{number} ORDER BY tick DESC LIMIT :limit) AS ticks_{number}"
        for number in range(count)
    )


NEW = "SELECT id FROM tenure_tick WHERE id IN :ids AND batch = :batch"
ADVANCE = "UPDATE tenure_schedule SET last = :tick WHERE name IN :names AND last < :tick"
OF_NOTE = "SELECT id FROM tenure_tick WHERE id IN :ids AND state IN :states ORDER BY id FOR UPDATE"
NOTE = "UPDATE tenure_tick SET state = :state, why = :why, noted = :now WHERE id IN :ids"
KNOWN = f"{_TICKS} WHERE id IN :ids"
HISTORY = f"{_TICKS} WHERE schedule = :schedule AND state IN :states ORDER BY tick DESC LIMIT :limit"
UNENDED = f"{_TICKS} WHERE state IN :states AND noted < :before ORDER BY noted, id LIMIT :limit"
LAST = """
SELECT name, last FROM tenure_schedule WHERE last > 0 AND last <= :now
UNION ALL
SELECT name, max(tick) FROM tenure_schedule JOIN tenure_tick ON schedule = name AND tick <= :now
WHERE last > :now GROUP BY name
"""
PAUSE = "UPDATE tenure_schedule SET paused = :now WHERE name = :name AND paused = 0"
RESUME = "UPDATE tenure_schedule SET paused = 0 WHERE name = :name"
PAUSED = "SELECT name, paused FROM tenure_schedule WHERE paused > 0"
OLD = "SELECT id FROM tenure_tick WHERE state IN :states AND noted < :before ORDER BY noted LIMIT :limit"
CROWDED = "SELECT schedule FROM tenure_tick GROUP BY schedule HAVING count(*) > :keep ORDER BY schedule LIMIT :limit"
# Skips the newest `keep` ticks, so that the cost depends on what is kept and not on what there is.
BEYOND = "SELECT tick FROM tenure_tick WHERE schedule = :schedule ORDER BY tick DESC LIMIT 1 OFFSET :keep"
OLDEST = """
SELECT id FROM tenure_tick WHERE schedule = :schedule AND tick <= :tick AND state IN :states
ORDER BY tick LIMIT :limit
"""
DROP = "DELETE FROM tenure_tick WHERE id IN :ids"
_CHUNK = 200  # rows in one statement: databases limit the number of its parameters
_SCHEDULES_AT_ONCE = 50
_MAX_CROWDED = 50  # schedules trimmed by count at a time


class SqlLedger(Ledger):
    """The process that inserts the row of a tick must enqueue its job; `batch` identifies the rows that it inserted."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.booking = self

    def time(self) -> int:
        return self._dialect.now()

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
        rows = self._dialect.read(KNOWN, {"ids": list(ids)}) if ids else []
        return {row[0]: _tick(row) for row in rows}

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        page = {"schedule": schedule, "states": list(states or TICK_STATES), "limit": limit}
        return [_tick(row) for row in self._dialect.read(HISTORY, page)]

    def histories(self, schedules: Sequence[str], *, limit: int = 20) -> dict[str, list[TickRecord]]:
        found: dict[str, list[TickRecord]] = {schedule: [] for schedule in schedules}
        names = list(found)
        for first in range(0, len(names), _SCHEDULES_AT_ONCE):
            chunk = names[first : first + _SCHEDULES_AT_ONCE]
            given = {f"name{number}": name for number, name in enumerate(chunk)}
            for row in self._dialect.read(histories_statement(len(chunk)), {**given, "limit": limit}):
                found[row[1]].append(_tick(row))
        return {name: sorted(ticks, key=lambda each: -each.tick) for name, ticks in found.items()}

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        page = {"states": list(states), "before": before, "limit": limit}
        return [_tick(row) for row in self._dialect.read(UNENDED, page)]

    def last_ticks(self) -> dict[str, int]:
        return dict(self._dialect.read(LAST, {"now": self._dialect.now()}))

    def pause(self, schedule: str) -> None:
        def write(rows: Rows) -> None:
            rows(schedule_statement(1), {"name0": schedule})
            rows(PAUSE, {"name": schedule, "now": self._dialect.time_in(rows)})

        self._dialect.transact(write)

    def resume(self, schedule: str) -> None:
        self._dialect.transact(lambda rows: rows(RESUME, {"name": schedule}))

    def paused(self) -> dict[str, int]:
        return dict(self._dialect.read(PAUSED, {}))

    def forget(self, before: int, keep: int, limit: int) -> int:
        ended = {"states": list(ENDED_TICKS)}
        gone = [id for (id,) in self._dialect.read(OLD, {**ended, "before": before, "limit": limit})]
        for (schedule,) in self._dialect.read(CROWDED, {"keep": keep, "limit": _MAX_CROWDED}):
            if len(gone) < limit:
                gone += self._beyond(schedule, keep, limit - len(gone))
        gone = list(dict.fromkeys(gone))
        if gone:
            self._dialect.transact(lambda rows: rows(DROP, {"ids": gone}))
        return len(gone)

    def _beyond(self, schedule: str, keep: int, limit: int) -> list[str]:
        page = {"schedule": schedule, "states": list(ENDED_TICKS), "limit": limit}
        found = self._dialect.read(BEYOND, {"schedule": schedule, "keep": keep})
        return [id for (tick,) in found for (id,) in self._dialect.read(OLDEST, {**page, "tick": tick})]

    def _enter(self, rows: Rows, ticks: Sequence[TickRecord]) -> set[str]:
        batch = secrets.randbits(62)
        ordered = sorted(ticks, key=lambda tick: tick.id)  # every process locks rows in one order, so none deadlocks
        new: set[str] = set()
        for first in range(0, len(ordered), _CHUNK):
            chunk = ordered[first : first + _CHUNK]
            values = {"now": self._dialect.time_in(rows), "batch": batch, **_columns(chunk)}
            rows(enter_statement(len(chunk)), values)
            new |= {id for (id,) in rows(NEW, {"ids": [tick.id for tick in chunk], "batch": batch})}
        latest: dict[str, int] = {}
        for tick in ordered:
            if tick.id in new and not is_by_hand(tick.tick):
                latest[tick.schedule] = max(tick.tick, latest.get(tick.schedule, 0))
        _advance(rows, latest)
        return new


def _change(rows: Rows, ids: Sequence[str], note: Note, now: int) -> list[str]:
    """Give these ticks the state of a note where it may follow; return the ids that changed."""
    before = list(may_come_from(note.state))
    found = [id for (id,) in rows(OF_NOTE, {"ids": sorted(ids), "states": before})]
    if found:
        rows(NOTE, {"ids": found, "state": note.state, "why": note.why, "now": now})
    return found


def _advance(rows: Rows, latest: dict[str, int]) -> None:
    """Store the last ticks of schedules."""
    names = sorted(latest)
    for first in range(0, len(names), _CHUNK):
        chunk = names[first : first + _CHUNK]
        rows(schedule_statement(len(chunk)), {f"name{number}": name for number, name in enumerate(chunk)})
    for moment in sorted(set(latest.values())):
        rows(ADVANCE, {"tick": moment, "names": [name for name in names if latest[name] == moment]})


def _columns(ticks: Sequence[TickRecord]) -> dict[str, Any]:
    names = ("id", "schedule", "tick", "due", "state", "why")
    return {f"{name}{number}": getattr(tick, name) for number, tick in enumerate(ticks) for name in names}


def _tick(row: tuple[Any, ...]) -> TickRecord:
    id, schedule, tick, due, state, why, entered, noted = row
    return TickRecord(
        id=id, schedule=schedule, tick=tick, due=due, state=state, why=why, entered_at=entered, noted_at=noted
    )
