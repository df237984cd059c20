"""`app.cron`: runs the schedules of an app, and publishes their ticks to the ledger and the queues."""

import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tenure.app.open_backends import check_may_leave_process
from tenure.backends.contract import Parts
from tenure.backends.ledger import ALL_SCHEDULES, Ledger, TickRecord, TickState, is_by_hand
from tenure.clock import to_microseconds
from tenure.cron.builder import Schedules
from tenure.cron.decision import PlannedTick, plan, reason_to_skip
from tenure.cron.follow_up import RunInline
from tenure.cron.loop import InlineTickRunner, SchedulerLoop
from tenure.cron.publisher import TickPublisher
from tenure.cron.schedule import DueTick, Schedule, tick_id
from tenure.cron.scheduler import Scheduler
from tenure.cron.tick_recorder import TickRecorder
from tenure.definition.moment import to_instant
from tenure.errors import InvalidSchedule, SettingsError
from tenure.events import Listeners

_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class TickResult:
    """The result of one tick; `is_new` if this call entered it in the ledger, or if it is not recorded."""

    schedule: Schedule
    record: TickRecord
    is_new: bool


@dataclass(frozen=True, slots=True)
class Cron:
    """The schedules of an app; it opens the ledger on first use."""

    schedules: Schedules
    environment: str
    listeners: Listeners
    parts: Callable[[], Parts]
    publisher: Callable[[Ledger], TickPublisher]

    @property
    def ledger(self) -> Ledger:
        """The ledger of the app's backend, or of the store beside it."""
        if (ledger := self.parts().ledger) is not None:
            return ledger
        raise SettingsError(
            "this backend has no ledger of schedules, and without one a tick could be enqueued twice; set store to a "
            'server that all schedulers share, such as "redis://host" or "postgresql://host/name"'
        )

    def loop(self) -> SchedulerLoop:
        """A loop that runs the schedules until it is stopped; any number of them may run at once."""
        ledger = self.ledger
        inline = InlineTickRunner(self.publisher(ledger))
        return SchedulerLoop(self.scheduler(inline.submit), inline)

    def companions(self) -> list[TickRecorder]:
        """The roles that record, beside a worker, how the jobs of ticks ended; none where there is no ledger."""
        try:
            ledger = self.ledger
        except SettingsError:
            return []
        made: list[Scheduler] = []

        def release() -> None:
            if not made:
                made.append(self.scheduler(None))
            made[0].follow_up()

        return [TickRecorder(ledger, self.listeners, release)]

    def run(self, at: datetime | str | int | None = None, only: Collection[str] = ()) -> list[TickResult]:
        """Run the ticks of this minute and those missed before; or the ticks of another time, or of named schedules.

        `at` is a datetime, text as for the option `at` of a job, or UTC microseconds as in the record of a tick.

        Jobs are put on their queues; those that are inline run here, one after the other.
        """
        ledger = self.ledger
        inline: list[tuple[Schedule, int]] = []
        runner = InlineTickRunner(self.publisher(ledger))
        scheduler = self.scheduler(lambda schedule, tick: inline.append((schedule, tick)))
        now = ledger.time()
        moment = self._moment(at, now)
        steps = plan(self.schedules.all(), moment, self.environment, only)
        reasons = {
            step.schedule.name: why for step in steps if (why := reason_to_skip(step.schedule, self.environment))
        }
        due = [DueTick(step.schedule, step.tick) for step in steps if step.schedule.name not in reasons]
        new: set[str] = set()
        if at is None and not only:
            new |= scheduler.catch_up(since=moment - moment % _MINUTE - 1)
            scheduler.follow_up()
        new |= scheduler.enter_due(due, now, only or None)
        while inline:
            runner.perform(*inline.pop(0))
            if not inline:
                scheduler.follow_up()
        known = ledger.known([tick_id(each.schedule.name, each.tick) for each in due])
        return [_result(step, known, new, reasons) for step in steps]

    def run_now(self, name: str, tick: int | None = None) -> TickResult:
        """Run a schedule once, outside its times and even while it is paused; its dependencies do not matter.

        It runs as a tick of this moment, or of `tick`, in UTC microseconds with a fraction of a second: a second call
        with the same tick runs nothing. The ledger records it; the other ticks of the schedule come as before.
        An inline job runs here, before this returns.
        """
        ledger, schedule = self.ledger, self.schedules.get(name)
        if (why := reason_to_skip(schedule, self.environment)) is not None:
            raise InvalidSchedule(f"schedule {name!r} does not run here: {why}")
        now = ledger.time()
        moment = now if tick is None else tick
        moment += not is_by_hand(moment)  # a tick of the schedule has no fraction of a second
        inline: list[tuple[Schedule, int]] = []
        scheduler = self.scheduler(lambda schedule, tick: inline.append((schedule, tick)))
        new = scheduler.enter_due([DueTick(schedule, moment)], now, [name], heeds_pauses=False)
        for each in inline:
            InlineTickRunner(self.publisher(ledger)).perform(*each)
        id = tick_id(name, moment)
        return TickResult(schedule, ledger.known([id])[id], id in new)

    def due(self, at: datetime | str | int | None = None, only: Collection[str] = ()) -> list[PlannedTick]:
        """What `run` would do in this minute, or in the minute of another time; nothing is run or recorded."""
        ledger = self.ledger
        moment = self._moment(at, ledger.time())
        return plan(self.schedules.all(), moment, self.environment, only, ledger.paused())

    def _moment(self, at: datetime | str | int | None, now: int) -> int:
        if at is None or isinstance(at, int):
            return now if at is None else at
        return to_microseconds(to_instant(at, "at", now, self.schedules.timezone))

    def history(self, name: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        """The newest ticks of a schedule, also of one that no longer exists."""
        return self.ledger.history(name, states=states, limit=limit)

    def pause(self, name: str | None = None) -> None:
        """Skip the ticks of a schedule, or of all schedules, until `resume`."""
        self.ledger.pause(ALL_SCHEDULES if name is None else self.schedules.get(name).name)

    def resume(self, name: str | None = None) -> None:
        self.ledger.resume(ALL_SCHEDULES if name is None else name)

    def scheduler(self, run_inline: RunInline | None) -> Scheduler:
        """A scheduler that the caller drives; `run_inline` receives the ticks that run in this process."""
        ledger = self.ledger
        return Scheduler(self.schedules.all(), ledger, self.publisher(ledger), self.environment, run_inline)


def _result(
    step: PlannedTick, known: Mapping[str, TickRecord], new: Collection[str], reasons: Mapping[str, str]
) -> TickResult:
    """The result of a step; a tick that does not run in this environment is reported and not recorded."""
    name, id = step.schedule.name, tick_id(step.schedule.name, step.tick)
    due = step.schedule.due_at(step.tick)
    skipped = TickRecord(id=id, schedule=name, tick=step.tick, due=due, state="skipped", why=reasons.get(name))
    return TickResult(step.schedule, known.get(id, skipped), id in new or name in reasons)


if TYPE_CHECKING:
    from tenure.app.tenure import Tenure


def schedules_of(app: "Tenure") -> Schedules:
    """An empty registry with the time zone, the handlers and the setting `schedules` of this app."""

    def check(schedule: Schedule) -> None:
        job = schedule.job
        handler = app.registry.resolve(job.handler, app.queues.resolve(job.queue))
        if handler.in_process and not schedule.inline:
            check_may_leave_process(handler, app.backend)
        handler.shape.pack(job.payload)

    return Schedules(app.settings.timezone, check, lambda: _register(app, app.settings.schedules))


def _register(app: "Tenure", location: str | None) -> None:
    """Call the function at `module:function` with the app, if there is one."""
    if location is None:
        return
    try:
        register = pkgutil.resolve_name(location)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"the setting schedules names {location!r}, which cannot be found: {error}; write it as module:function"
        ) from error
    register(app)
