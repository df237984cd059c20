"""Scheduler: enters due ticks in the ledger and has their jobs put; any number of schedulers may run at once.

A scheduler holds no state of its own that matters: one that starts reads from the ledger how far each schedule is.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from tenure.backends.ledger import OPEN_TICKS, Ledger, TickRecord
from tenure.backends.messages import Message
from tenure.clock import MICROSECOND
from tenure.cron.decision import DependencyState, catch_up, decide, dependency_ids, dependency_state, reason_to_skip
from tenure.cron.follow_up import FollowUp, RunInline
from tenure.cron.publisher import TickPublisher
from tenure.cron.schedule import DueTick, Schedule, tick_id, tick_text
from tenure.errors import BackendError, TenureError
from tenure.events import TickFailed, TickSkipped, TickStarted

logger = logging.getLogger(__name__)

TICKS_PER_TRANSACTION = 500
_FOLLOW_UP_INTERVAL = 1 * MICROSECOND
_CLOCK_SET_BACK = 60 * MICROSECOND  # if the clock goes back by more, it was wrong: read the ledger again
_MAX_PAUSE = 1.0  # the scheduler notices a jump of the clock within this time


class Scheduler:
    """`beat` and `catch_up` enter the ticks that are due; `enter_due` enters the ticks that the caller names."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        ledger: Ledger,
        publisher: TickPublisher,
        environment: str,
        run_inline: RunInline | None = None,
    ) -> None:
        """`schedules` are in the order of their dependencies; `run_inline` runs a tick in this process.

        Without `run_inline` call only `follow_up`: inline ticks would not run.
        """
        self._schedules = {schedule.name: schedule for schedule in schedules}
        self._ledger = ledger
        self._publisher = publisher
        self._environment = environment
        self._run_inline = run_inline
        self._since = self._last_time = 0
        self._agenda: Agenda | None = None
        self._follow_up = FollowUp(self._schedules, ledger, publisher, self._decide, run_inline)
        self._follow_up_at = 0

    def beat(self) -> float:
        """Enter what is due, and follow up the open ticks; returns after how many seconds to call again."""
        self.catch_up()
        now = self._last_time
        if now >= self._follow_up_at or now < self._follow_up_at - 2 * _FOLLOW_UP_INTERVAL:
            self._follow_up_at = now + _FOLLOW_UP_INTERVAL
            self._follow_up.run(now)
        following = self._agenda.next_due() if self._agenda else None
        return _MAX_PAUSE if following is None else min(_MAX_PAUSE, max(0.0, (following - now) / MICROSECOND))

    def catch_up(self, since: int | None = None) -> set[str]:
        """Enter what is due; returns the ids of the ticks that this call has entered.

        A schedule that the ledger does not know begins at the first call, or at `since`.
        """
        now = self._ledger.time()
        self._since = self._since or since or now
        if now < self._last_time - _CLOCK_SET_BACK:
            self._agenda = None  # the ticks between now and the wrong time are due again
        self._last_time = now
        new: set[str] = set()
        try:
            self._agenda = self._agenda or self._open_agenda(now)
            due, dropped = self._agenda.take(now)
            self._record_dropped(dropped)
            for first in range(0, len(due), TICKS_PER_TRANSACTION):
                new |= self.enter_due(due[first : first + TICKS_PER_TRANSACTION], now)
        except BackendError:
            self._agenda = None  # the ticks taken are not entered: start again from the ledger
            raise
        return new

    def follow_up(self) -> None:
        """Follow up the open ticks, without entering due ones."""
        self._follow_up.run(self._ledger.time())

    def enter_due(
        self, due: Sequence[DueTick], now: int, among: Iterable[str] | None = None, *, heeds_pauses: bool = True
    ) -> set[str]:
        """Enter those of these ticks that are not in the ledger yet; returns the ids of those.

        With `among`, only dependencies on these schedules count.
        """
        records = self._decide(due, now, among, heeds_pauses=heeds_pauses)
        messages: list[Message] = []
        for position, (each, record) in enumerate(zip(due, records, strict=True)):
            if record.state == "enqueued":
                try:
                    messages.append(self._publisher.seal(each, now))
                except TenureError as error:
                    records[position] = replace(record, state="failed", why=str(error))
        new = self._publisher.enter(records, messages)
        for each, record in zip(due, records, strict=True):
            if record.id in new:
                self._after_entry(each, record)
        return new

    def _decide(
        self, due: Sequence[DueTick], now: int, among: Iterable[str] | None = None, *, heeds_pauses: bool = True
    ) -> list[TickRecord]:
        """The state that each of these ticks should have."""
        paused = self._ledger.paused() if heeds_pauses else {}
        known = self._dependency_records(due)
        unended = self._unended_ticks(due)
        records: list[TickRecord] = []
        for schedule, tick in ((each.schedule, each.tick) for each in due):
            dependencies = self._dependency_states(schedule, tick, known, now, among)
            blocked = reason_to_skip(schedule, self._environment, paused)
            earlier = sum(other < tick for other in unended.get(schedule.name, ()))
            state, why = decide(schedule, dependencies, earlier, blocked)
            id = tick_id(schedule.name, tick)
            record = TickRecord(
                id=id, schedule=schedule.name, tick=tick, due=schedule.due_at(tick), state=state, why=why
            )
            records.append(record)
            known[id] = record
            if state in OPEN_TICKS and schedule.name in unended:
                unended[schedule.name][tick] += 1
        return records

    def _dependency_records(self, due: Sequence[DueTick]) -> dict[str, TickRecord]:
        ids = [id for each in due for id in dependency_ids(each.schedule, each.tick).values()]
        return self._ledger.known(list(dict.fromkeys(ids))) if ids else {}

    def _unended_ticks(self, due: Sequence[DueTick]) -> dict[str, Counter[int]]:
        """Name → ticks that have not ended, of the schedules that may not overlap."""
        names = dict.fromkeys(each.schedule.name for each in due if each.schedule.overlap != "allow")
        found: dict[str, Counter[int]] = {}
        for name in names:
            records = self._follow_up.close_ended(self._ledger.history(name, states=OPEN_TICKS, limit=10))
            found[name] = Counter(record.tick for record in records)
        return found

    def _dependency_states(
        self, schedule: Schedule, tick: int, known: Mapping[str, TickRecord], now: int, among: Iterable[str] | None
    ) -> dict[str, DependencyState]:
        return {
            name: dependency_state(self._schedules[name], tick, known.get(id), self._environment, now)
            for name, id in dependency_ids(schedule, tick).items()
            if name in self._schedules and (among is None or name in among)
        }

    def _after_entry(self, due: DueTick, record: TickRecord) -> None:
        """Run or report a tick that this scheduler has entered."""
        if record.state == "running" and self._run_inline:
            self._publisher.emit(TickStarted(record.schedule, record.tick, record.id))
            self._run_inline(due.schedule, due.tick)
        elif record.state == "skipped":
            self._publisher.emit(TickSkipped(record.schedule, record.tick, record.why))
        elif record.state == "failed":
            logger.error("schedule %r could not be enqueued: %s", record.schedule, record.why)
            self._publisher.emit(TickFailed(record.schedule, record.tick, record.id, record.why))

    def _open_agenda(self, now: int) -> "Agenda":
        """An agenda that begins after the last ticks in the ledger; a tick of the future is not entered again later."""
        here = [each for each in self._schedules.values() if reason_to_skip(each, self._environment) is None]
        return Agenda(here, min(self._since, now), self._ledger.last_ticks())

    def _record_dropped(self, dropped: Sequence["DroppedTicks"]) -> None:
        """Record the last of the dropped ticks as skipped, unless another scheduler has entered it."""
        records = []
        for each in dropped:
            since = tick_text(each.first)
            why = "missed" if each.first == each.last else f"missed, with all before it since {since}"
            name, due = each.schedule.name, each.schedule.due_at(each.last)
            records.append(TickRecord(
                id=tick_id(name, each.last), schedule=name, tick=each.last, due=due, state="skipped", why=why
            ))  # fmt: skip
        new = self._ledger.enter(records) if records else set()
        for record in records:
            if record.id in new:
                logger.warning("schedule %r %s", record.schedule, record.why)
                self._publisher.emit(TickSkipped(record.schedule, record.tick, record.why))


class DroppedTicks(Struct, frozen=True):
    """Missed ticks that do not run, by the misfire policy: the first and the last of them."""

    schedule: Schedule
    first: int
    last: int


class Agenda:
    """A heap with the next tick of each schedule, so that the cost of a beat depends only on what is due.

    Filling it with 10 000 schedules takes about a second.
    """

    def __init__(self, schedules: Sequence[Schedule], since: int, last: Mapping[str, int] | None = None) -> None:
        """`schedules` are in the order of their dependencies; `last` holds the last entered tick of each by its name.

        A schedule's next tick is the first one after that, or after `since` if no tick was entered.
        """
        self._schedules = schedules
        known = last or {}
        entries = (self._entry(rank, known.get(schedule.name, since)) for rank, schedule in enumerate(schedules))
        self._heap = [entry for entry in entries if entry]
        heapify(self._heap)

    def next_due(self) -> int | None:
        """When the next tick is due."""
        return self._heap[0][0] if self._heap else None

    def take(self, now: int) -> tuple[list[DueTick], list[DroppedTicks]]:
        """The ticks to run, by time and then in the order of dependencies, and the missed ones that do not run."""
        due: list[tuple[int, int]] = []
        dropped = []
        while self._heap and self._heap[0][0] <= now:
            _, rank, tick = heappop(self._heap)
            schedule = self._schedules[rank]
            found = catch_up(schedule, tick - 1, now)
            due += [(each, rank) for each in found.run]
            if found.dropped:
                dropped.append(DroppedTicks(schedule, *found.dropped))
            if entry := self._entry(rank, found.until):
                heappush(self._heap, entry)
        return [DueTick(self._schedules[rank], tick) for tick, rank in sorted(due)], dropped

    def _entry(self, rank: int, after: int) -> tuple[int, int, int] | None:
        """When the next tick of a schedule is due, the rank of the schedule, and the tick."""
        schedule = self._schedules[rank]
        tick = schedule.after(after)
        return None if tick is None else (schedule.due_at(tick), rank, tick)
