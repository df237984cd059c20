"""The page of schedules: when each is due next, how its last ticks ended, and what one of them does."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import JobQuery, has_pattern, parse
from tenure.backends.ledger import ALL_SCHEDULES, Ledger, TickRecord, is_by_hand
from tenure.clock import MICROSECOND, to_datetime, to_microseconds
from tenure.cron.decision import reason_to_skip
from tenure.cron.describe import PreviewLine, around_change, describe, explain, never_together, next_change, upcoming
from tenure.cron.schedule import Schedule, Ticks
from tenure.errors import InvalidSchedule, JobNotFound, SettingsError

SHOWN_TICKS = 30
PAGE_SCHEDULES = 50
NEXT_TICKS = 5
LAST_TICKS = 5
_SHARED_SECONDS = 2.0
_SCHEDULES_SECONDS = 10.0  # declaring 1000 schedules again takes a tenth of a second
_WEEK = timedelta(days=6)
_FILTER_KEYS = ("name", "handler", "queue", "text")
_SHOWN_ELSEWHERE = ("not here", "runs", "when", "expression", "zone", "depends on")
_OUTCOMES = {"succeeded": "succeeded", "failed": "failed", "skipped": "skipped"}


class TickMark(Struct, frozen=True, kw_only=True):
    """A past tick: `outcome` is succeeded, failed, skipped or running; `id` is that of its job, `why` explains it."""

    id: str
    at: datetime
    outcome: str
    why: str | None = None
    by_hand: bool = False


class ScheduleRow(Struct, frozen=True, kw_only=True):
    """One schedule; `ticks` are its last ones, the oldest first, and `next_text` is `next_at` in its zone.

    `queue` is None for a schedule that runs in the scheduler. `note` says why it never runs here.
    """

    name: str
    handler: str
    queue: str | None
    words: str
    expression: str
    zone: str
    ticks: tuple[TickMark, ...] = ()
    next_at: datetime | None = None
    next_text: str | None = None
    paused_since: datetime | None = None
    note: str | None = None

    def counts(self) -> str:
        """The outcomes of the ticks in words."""
        found = Counter(tick.outcome for tick in self.ticks)
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items())) or "no tick yet"


class NextTick(Struct, frozen=True, kw_only=True):
    """A tick to come: `local` is its time in the zone of the schedule, in words."""

    at: datetime
    local: str
    note: str | None = None


class PastTick(Struct, frozen=True, kw_only=True):
    """A tick with its time in the zone of the schedule, and how long its job ran, if that is known."""

    mark: TickMark
    local: str
    seconds: float | None = None


class SchedulePanel(Struct, frozen=True, kw_only=True):
    """All about one schedule: `sentence` are pairs of a text and whether it is a name.

    `changes` tells what happens at the next clock changes, `facts` are topics and sentences.
    """

    row: ScheduleRow
    sentence: tuple[tuple[str, bool], ...]
    changes: tuple[str, ...]
    warning: str | None
    upcoming: tuple[NextTick, ...]
    past: tuple[PastTick, ...]
    depends_on: tuple[str, ...]
    needed_by: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


class SchedulesPage(Struct, frozen=True, kw_only=True):
    """Some of the `total` schedules that match; `next` is the name after which the next page begins.

    `all_paused_since` is set while all schedules are paused. `unavailable` says why there are none, and `no_ledger`
    why past ticks are not known.
    """

    at: datetime
    q: str = ""
    schedules: tuple[ScheduleRow, ...] = ()
    total: int = 0
    known: int = 0
    first: int = 0
    next: str | None = None
    all_paused_since: datetime | None = None
    panel: SchedulePanel | None = None
    fault: str | None = None
    unavailable: str | None = None
    no_ledger: str | None = None
    status: int = 200


class SchedulesQuery(Struct, frozen=True, kw_only=True):
    """`name` opens one schedule; `q` filters by name, handler, queue or text; `after` begins a page."""

    page: ClassVar[str] = "schedules"
    q: str = ""
    name: str = ""
    after: str = ""

    def read(self, sources: Sources, access: Access) -> SchedulesPage:
        wanted = parse(self.q)
        known: dict[str, Any] = {"at": sources.now, "q": self.q}
        if unknown := next((term for term in wanted.terms if term.key not in _FILTER_KEYS), None):
            keys = ", ".join(_FILTER_KEYS[:-1])
            return SchedulesPage(**known, status=400, fault=f"There is no key “{unknown.name}”; there are {keys}.")
        try:
            seen = seen_schedules(sources, access)
        except InvalidSchedule as error:
            return SchedulesPage(**known, unavailable=f"The schedules of this app cannot be read: {error}")
        if not seen:
            return SchedulesPage(**known, unavailable=_why_none(sources))
        ledger, no_ledger = ledger_of(sources)
        reader = _Reader(sources, ledger)
        found = [each for each in seen if _matches(each, wanted)]
        rest = [each for each in found if each.name > self.after] if self.after else found
        shown = rest[:PAGE_SCHEDULES]
        return SchedulesPage(
            **known,
            schedules=tuple(reader.rows(shown)),
            total=len(found),
            known=len(seen),
            first=len(found) - len(rest) + 1 if shown else 0,
            next=shown[-1].name if len(rest) > PAGE_SCHEDULES else None,
            all_paused_since=reader.paused_since(ALL_SCHEDULES),
            panel=reader.panel(_named(seen, self.name), seen) if self.name else None,
            no_ledger=no_ledger,
        )


def seen_schedules(sources: Sources, access: Access) -> list[Schedule]:
    """The schedules of the queues that the user sees, by name; those that run in the scheduler are on no queue."""
    found = sources.shared("schedules", _SCHEDULES_SECONDS, sources.app.schedules.all)
    seen = [
        each for each in found if access.queues is None or (not each.inline and access.sees(queue_of(sources, each)))
    ]
    return sorted(seen, key=lambda schedule: schedule.name)


def queue_of(sources: Sources, schedule: Schedule) -> str:
    """The name of the queue of a schedule, which may be declared with an alias."""
    return sources.app.queues.find(schedule.job.queue) or schedule.job.queue


def ledger_of(sources: Sources) -> tuple[Ledger | None, str | None]:
    """The ledger, or why there is none and what to do."""
    try:
        return sources.app.cron.ledger, None
    except SettingsError as error:
        return None, str(error)


def _why_none(sources: Sources) -> str:
    if sources.has_handlers:
        return "No schedule is declared that you may see."
    return "The dashboard was started from settings alone, so it knows no schedules: start it with --app module:name."


def _named(schedules: Sequence[Schedule], name: str) -> Schedule:
    found = next((each for each in schedules if each.name == name), None)
    if found is None:
        raise JobNotFound(f"no schedule is called {name!r:.200}")
    return found


def _matches(schedule: Schedule, wanted: JobQuery) -> bool:
    values = {"name": schedule.name, "handler": schedule.job.handler, "queue": schedule.job.queue}
    for key, value in values.items():
        named, refused = wanted.wanted(key), wanted.unwanted(key)
        if (named and not any(has_pattern(each, value) for each in named)) or any(
            has_pattern(each, value) for each in refused
        ):
            return False
    text = " ".join((*values.values(), _words(schedule.expression))).casefold()
    return all(word.casefold() in text for word in wanted.wanted("text")) and not any(
        word.casefold() in text for word in wanted.unwanted("text")
    )


@lru_cache(maxsize=10_000)
def _words(expression: str) -> str:
    return describe(expression)


class _Reader:
    """Makes the rows and the panel of schedules, with what the ledger knows about them."""

    def __init__(self, sources: Sources, ledger: Ledger | None) -> None:
        self._sources = sources
        self._ledger = ledger
        self._now = sources.app.clock.now()
        self._environment = sources.app.settings.environment
        self._paused = {} if ledger is None else sources.shared("paused schedules", _SHARED_SECONDS, ledger.paused)

    def paused_since(self, name: str) -> datetime | None:
        return to_datetime(self._paused[name]) if name in self._paused else None

    def rows(self, schedules: Sequence[Schedule]) -> Iterator[ScheduleRow]:
        ticks = self._ticks([schedule.name for schedule in schedules])
        return (self._row(schedule, ticks.get(schedule.name, ())) for schedule in schedules)

    def _ticks(self, names: Sequence[str]) -> dict[str, list[TickRecord]]:
        """The last ticks of these schedules, the newest first; viewers share them for some seconds."""
        if self._ledger is None:
            return {}
        known: dict[str, list[TickRecord]] = self._sources.shared("ticks of schedules", _SHARED_SECONDS, dict)
        if missing := [name for name in names if name not in known]:
            known.update(self._ledger.histories(missing, limit=SHOWN_TICKS))
        return {name: known[name] for name in names}

    def _row(self, schedule: Schedule, ticks: Sequence[TickRecord]) -> ScheduleRow:
        note = reason_to_skip(schedule, self._environment)
        paused = self.paused_since(schedule.name) or self.paused_since(ALL_SCHEDULES)
        tick = None if note or paused else schedule.after(self._now)
        return ScheduleRow(
            name=schedule.name,
            handler=schedule.job.handler,
            queue=None if schedule.inline else queue_of(self._sources, schedule),
            words=_words(schedule.expression),
            expression=schedule.expression,
            zone=schedule.timezone,
            ticks=tuple(_mark(record) for record in reversed(ticks)),
            next_at=None if tick is None else to_datetime(tick),
            next_text=None if tick is None else self._local(schedule, tick),
            paused_since=paused,
            note=note,
        )

    def panel(self, schedule: Schedule, schedules: Sequence[Schedule]) -> SchedulePanel:
        (row,) = self.rows([schedule])
        topics = explain(schedule, self._environment)
        return SchedulePanel(
            row=row,
            sentence=tuple(_sentence(schedule, row)),
            changes=tuple(clock_changes(schedule, self._now)),
            warning=never_together(schedule, schedules, self._now),
            upcoming=tuple(self._next_tick(line) for line in upcoming(schedule, self._now, NEXT_TICKS)),
            past=tuple(self._past(schedule, mark) for mark in reversed(row.ticks[-LAST_TICKS:])),
            depends_on=schedule.job.depends_on,
            needed_by=tuple(each.name for each in schedules if schedule.name in each.job.depends_on),
            facts=tuple((topic, text) for topic, text in topics.items() if topic not in _SHOWN_ELSEWHERE),
        )

    def _next_tick(self, line: PreviewLine) -> NextTick:
        moment = to_microseconds(line.local)
        return NextTick(
            at=to_datetime(moment), local=f"{line.local:%a} {_date(line.local)} {_time(line.local)}", note=line.note
        )

    def _past(self, schedule: Schedule, mark: TickMark) -> PastTick:
        record = None if mark.outcome == "skipped" else self._sources.parts.find(mark.id)
        local = mark.at.astimezone(schedule.ticks.zone)
        return PastTick(
            mark=mark,
            local=f"{_date(local)} {_time(local)}",
            seconds=None if record is None else record.seconds,
        )

    def _local(self, schedule: Schedule, tick: int) -> str:
        """The time of a tick in the zone of its schedule, with the day if it is not today, or the date if it is far."""
        zone = schedule.ticks.zone
        local, now = to_datetime(tick).astimezone(zone), to_datetime(self._now).astimezone(zone)
        if local.date() == now.date():
            return _time(local)
        if local.date() - now.date() <= _WEEK:
            return f"{local:%a} {_time(local)}"
        year = "" if local.year == now.year else f" {local.year}"
        return f"{_date(local)}{year} {_time(local)}"


def _mark(record: TickRecord) -> TickMark:
    return TickMark(
        id=record.id,
        at=to_datetime(record.tick),
        outcome=_OUTCOMES.get(record.state, "running"),
        why=record.why,
        by_hand=is_by_hand(record.tick),
    )


def _date(local: datetime) -> str:
    return f"{local.day} {local:%b}"


def _time(local: datetime) -> str:
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def _sentence(schedule: Schedule, row: ScheduleRow) -> Iterator[tuple[str, bool]]:
    yield f"{row.words} in {row.zone}", False
    if row.queue is None:
        yield ", in the scheduler", False
    else:
        yield ", on queue ", False
        yield row.queue, True
    for number, name in enumerate(schedule.job.depends_on):
        yield ", after " if not number else " and ", False
        yield name, True
    yield " of the same tick." if schedule.job.depends_on else ".", False


def clock_changes(schedule: Schedule, now: int) -> Iterator[str]:
    """What the next two clock changes do to a schedule that names its minutes and hours."""
    if not isinstance(schedule.ticks, Ticks) or not schedule.ticks.expression.is_fixed:
        return
    moment = now
    for _ in range(2):
        change = next_change(schedule, moment)
        if change is None:
            return
        day = change.astimezone(schedule.ticks.zone).date()
        for line in around_change(schedule, moment, 2):
            if line.note and not line.is_change and line.local.date() == day:
                yield f"On {_date(line.local)} {line.local.year} it runs at {_time(line.local)}, {line.note}."
        moment = to_microseconds(change) + MICROSECOND
