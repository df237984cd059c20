"""The scheduler: enters what is due into the ledger, and tends what waits there; any number may work side by side.

Nothing that matters is kept here: whoever starts finds in the ledger how far each schedule has come.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from tenure.backends.contract import Message
from tenure.backends.ledger import OPEN, Ledger, TickRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.cron.agenda import Agenda, Dropped, Due
from tenure.cron.decision import decide, fate_of, ids_needed, obstacle_of
from tenure.cron.dependencies import Fate
from tenure.cron.desk import Desk
from tenure.cron.occurrence import job_id
from tenure.cron.plan import reason_to_skip
from tenure.cron.schedule import Schedule
from tenure.cron.tending import RunInline, Tending
from tenure.errors import BackendError, TenureError
from tenure.events import TickFailed, TickSkipped

logger = logging.getLogger(__name__)

CHUNK = 500  # ticks a transaction
_TEND = 1.0
_BACK = 60 * MICROSECOND  # a clock that was set back by more than this was wrong, and what it left behind is looked at
_LOOK = 1.0  # a clock that jumps is noticed within this time


class Scheduler:
    """`beat` does what is due; `take_up` does what somebody says is due."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        ledger: Ledger,
        desk: Desk,
        environment: str,
        run_inline: RunInline | None = None,
    ) -> None:
        """`schedules` in the order of their dependencies; `run_inline` has a tick run in this process.

        One without it only tends what waits for the ends of jobs.
        """
        self._schedules = {schedule.name: schedule for schedule in schedules}
        self._ledger = ledger
        self._desk = desk
        self._environment = environment
        self.run_inline = run_inline
        self._since = self._seen = 0
        self._agenda: Agenda | None = None
        self._tending = Tending(ledger, desk, self)
        self._tend_at = 0

    def beat(self, since: int | None = None) -> float:
        """Do what is due; returns in how many seconds to look again.

        Of schedules that the ledger does not know, what is due after the first beat, or `since` a time.
        """
        now = self._ledger.time()
        self._since = self._since or since or now
        if now < self._seen - _BACK:
            self._agenda = None  # what it has left behind is to come again
        self._seen = now
        try:
            agenda = self._agenda = self._agenda or self._open(now)
            due, dropped = agenda.take(now)
            self._give_up(dropped)
            for first in range(0, len(due), CHUNK):
                self.take_up(due[first : first + CHUNK], now)
        except BackendError:
            self._agenda = None  # what was taken is not entered: begin again where the ledger is
            raise
        if now >= self._tend_at or now < self._tend_at - 2 * _TEND * MICROSECOND:
            self._tend_at = now + round(_TEND * MICROSECOND)
            self._tending.tend(now)
        following = agenda.next_due()
        return _LOOK if following is None else min(_LOOK, max(0.0, (following - now) / MICROSECOND))

    def tend(self) -> None:
        """See to what waits, without looking for what is due."""
        self._tending.tend(self._ledger.time())

    def take_up(self, due: Sequence[Due], now: int, among: Iterable[str] | None = None) -> dict[str, TickRecord]:
        """Enter these ticks, those that nobody has entered before; returns them by the names of their schedules.

        Dependencies count only `among` these schedules, if any are given.
        """
        records = self.judge(due, now, among)
        messages: list[Message] = []
        for position, (each, record) in enumerate(zip(due, records, strict=True)):
            if record.state == "enqueued":
                try:
                    messages.append(self.seal(each, now))
                except TenureError as error:
                    records[position] = replace(record, state="failed", why=str(error))
        new = self._desk.enter(records, messages)
        for each, record in zip(due, records, strict=True):
            if record.id in new:
                self._follow(each, record)
        return {record.schedule: record for record in records if record.id in new}

    def judge(self, due: Sequence[Due], now: int, among: Iterable[str] | None = None) -> list[TickRecord]:
        """What is to become of each of these ticks."""
        paused = self._ledger.paused()
        known = self._needed(due)
        waiting = self._unended(due)
        records: list[TickRecord] = []
        for schedule, tick in ((each.schedule, each.tick) for each in due):
            fates = self._fates(schedule, tick, known, now, among)
            obstacle = obstacle_of(schedule, self._environment, paused)
            earlier = sum(other < tick for other in waiting.get(schedule.name, ()))
            state, why = decide(schedule, fates, earlier, obstacle)
            id = job_id(schedule.name, tick)
            record = TickRecord(
                id=id, schedule=schedule.name, tick=tick, due=schedule.due_at(tick), state=state, why=why
            )
            records.append(record)
            known[id] = record
            if state in OPEN and schedule.name in waiting:
                waiting[schedule.name][tick] += 1
        return records

    def seal(self, due: Due, now: int) -> Message:
        """The message of a tick; one that is taken up before its jitter is over waits for the rest."""
        message = self._desk.seal(due.schedule.occurrence(due.tick))
        later = due.schedule.due_at(due.tick)
        return replace(message, due=later) if later > now else message

    def find(self, name: str) -> Schedule | None:
        return self._schedules.get(name)

    def _open(self, now: int) -> Agenda:
        """From where the ledger is; what a clock that was ahead has entered of the future is known when it comes."""
        here = [each for each in self._schedules.values() if reason_to_skip(each, self._environment) is None]
        since = min(self._since, now)
        known = self._ledger.last_ticks()
        last = {name: tick if tick <= now else max(since, now - _BACK) for name, tick in known.items()}
        return Agenda(here, since, last)

    def _give_up(self, dropped: Sequence[Dropped]) -> None:
        """Write down what was missed for good, unless somebody else was there for it."""
        records = []
        for each in dropped:
            since = f"{to_datetime(each.first):%Y-%m-%dT%H:%MZ}"
            why = "missed" if each.first == each.last else f"missed, with all before it since {since}"
            name, due = each.schedule.name, each.schedule.due_at(each.last)
            records.append(TickRecord(
                id=job_id(name, each.last), schedule=name, tick=each.last, due=due, state="skipped", why=why
            ))  # fmt: skip
        new = self._ledger.enter(records) if records else set()
        for record in records:
            if record.id in new:
                logger.warning("schedule %r %s", record.schedule, record.why)
                self._desk.tell(TickSkipped(record.schedule, record.tick, record.why))

    def _needed(self, due: Sequence[Due]) -> dict[str, TickRecord]:
        ids = [id for each in due for id in ids_needed(each.schedule, each.tick).values()]
        return self._ledger.known(list(dict.fromkeys(ids))) if ids else {}

    def _unended(self, due: Sequence[Due]) -> dict[str, Counter[int]]:
        """Name → ticks that have not ended, of the schedules that may not overlap."""
        names = dict.fromkeys(each.schedule.name for each in due if each.schedule.overlap != "allow")
        found: dict[str, Counter[int]] = {}
        for name in names:
            records = self._tending.settle(self._ledger.history(name, states=OPEN, limit=10))
            found[name] = Counter(record.tick for record in records)
        return found

    def _fates(
        self, schedule: Schedule, tick: int, known: Mapping[str, TickRecord], now: int, among: Iterable[str] | None
    ) -> dict[str, Fate]:
        return {
            name: fate_of(self._schedules[name], tick, known.get(id), self._environment, now)
            for name, id in ids_needed(schedule, tick).items()
            if name in self._schedules and (among is None or name in among)
        }

    def _follow(self, due: Due, record: TickRecord) -> None:
        """What comes after a tick was entered by us."""
        if record.state == "running" and self.run_inline:
            self.run_inline(due.schedule, due.tick)
        elif record.state == "skipped":
            self._desk.tell(TickSkipped(record.schedule, record.tick, record.why))
        elif record.state == "failed":
            logger.error("schedule %r could not be enqueued: %s", record.schedule, record.why)
            self._desk.tell(TickFailed(record.schedule, record.tick, record.id, record.why))
