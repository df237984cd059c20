"""Keeping: the schedules of an app at work, and what is known of their ticks; `app.cron`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tenure.app.desk import AppDesk
from tenure.backends.contract import Backend
from tenure.backends.ledger import EVERY, Ledger, Ledgered, TickRecord, TickState
from tenure.cron.agenda import Due
from tenure.cron.bookkeeper import Bookkeeper
from tenure.cron.inline import Inline
from tenure.cron.occurrence import job_id
from tenure.cron.plan import Step, plan, reason_to_skip
from tenure.cron.registry import Schedules
from tenure.cron.schedule import Schedule
from tenure.cron.scheduler import Scheduler
from tenure.cron.tending import RunInline
from tenure.cron.timekeeper import Timekeeper
from tenure.errors import SettingsError
from tenure.events import Listeners
from tenure.guards.store import Store

_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Ran:
    """A tick that was asked for; `is_new` when nobody had entered it before."""

    schedule: Schedule
    record: TickRecord
    is_new: bool


@dataclass(frozen=True, slots=True)
class Cron:
    """What `app.cron` is; nothing is opened until it is used."""

    schedules: Schedules
    environment: str
    listeners: Listeners
    backend: Callable[[], Backend]
    store: Callable[[], Store]
    desk: Callable[[Ledger], AppDesk]

    @property
    def ledger(self) -> Ledger:
        """That of the app's backend, or of its store where the backend has none."""
        for find in (self.backend, self.store):
            place: object = find()
            if isinstance(place, Ledgered):
                return place.ledger
        raise SettingsError(
            "this backend keeps no ledger of schedules, without which ticks could be enqueued twice; name a place "
            'that all schedulers share with the setting store, such as "redis://host" or "postgresql://host/name"'
        )

    def timekeeper(self) -> Timekeeper:
        """Keeps the schedules until it is stopped; any number may do so at once."""
        ledger = self.ledger
        inline = Inline(self.desk(ledger), ledger.note)
        return Timekeeper(self.scheduler(inline.submit), inline)

    def companions(self) -> list[Bookkeeper]:
        """Who writes down, beside a worker, how the jobs of ticks have ended; nobody where no ledger is."""
        try:
            ledger = self.ledger
        except SettingsError:
            return []
        made: list[Scheduler] = []

        def release() -> None:
            if not made:
                made.append(self.scheduler(None))
            made[0].tend()

        return [Bookkeeper(ledger, self.listeners, release)]

    def run(self, at: int | None = None, only: Collection[str] = ()) -> list[Ran]:
        """Do what is due in this minute, with what was missed before; or what was due at a time, or what is named.

        Jobs are put on their queues; those that are inline run here, one after the other.
        """
        ledger = self.ledger
        inline: list[tuple[Schedule, int]] = []
        runner = Inline(self.desk(ledger), ledger.note)
        scheduler = self.scheduler(lambda schedule, tick: inline.append((schedule, tick)))
        now = ledger.time()
        moment = now if at is None else at
        steps = plan(self.schedules.all(), moment, self.environment, only)
        off = {step.schedule.name: why for step in steps if (why := reason_to_skip(step.schedule, self.environment))}
        due = [Due(step.schedule, step.tick) for step in steps if step.schedule.name not in off]
        before = set(ledger.known([job_id(each.schedule.name, each.tick) for each in due]))
        if at is None and not only:
            scheduler.beat(since=moment - moment % _MINUTE - 1)
        scheduler.take_up(due, now, only or None)
        while inline:
            runner.perform(*inline.pop(0))
            if not inline:
                scheduler.tend()
        known = ledger.known([job_id(each.schedule.name, each.tick) for each in due])
        return [_ran(step, known, before, off) for step in steps]

    def history(self, name: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        """The newest ticks of a schedule, also of one that is gone."""
        return self.ledger.history(name, states=states, limit=limit)

    def pause(self, name: str | None = None) -> None:
        """Skip the ticks of a schedule, or of all, until they are resumed."""
        self.ledger.pause(EVERY if name is None else self.schedules.get(name).name)

    def resume(self, name: str | None = None) -> None:
        self.ledger.resume(EVERY if name is None else name)

    def scheduler(self, run_inline: RunInline | None) -> Scheduler:
        """One that beats when it is told to; `run_inline` is given what is to run in this process."""
        ledger = self.ledger
        return Scheduler(self.schedules.all(), ledger, self.desk(ledger), self.environment, run_inline)


def _ran(step: Step, known: Mapping[str, TickRecord], before: Collection[str], off: Mapping[str, str]) -> Ran:
    """What became of a step; what does not run here at all is told, and not written down."""
    name, id = step.schedule.name, job_id(step.schedule.name, step.tick)
    due = step.schedule.due_at(step.tick)
    skipped = TickRecord(id=id, schedule=name, tick=step.tick, due=due, state="skipped", why=off.get(name))
    return Ran(step.schedule, known.get(id, skipped), id not in before)
