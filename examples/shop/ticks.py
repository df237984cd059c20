"""The ticks of the shop's schedules in the last day, with all outcomes that a tick can have."""

from collections.abc import Callable

from tenure import Tenure
from tenure.backends.ledger import Note, TickRecord, TickState
from tenure.clock import MICROSECOND
from tenure.cron.schedule import Schedule, tick_id
from tenure.definition.job import Job
from tenure.testing import FakeClock

DAY_SECONDS = 24 * 3600
RunTick = Callable[[Job, bool], None]


class Ticks:
    """Enters ticks in the ledger, and enqueues their jobs."""

    def __init__(self, app: Tenure, clock: FakeClock) -> None:
        self._app = app
        self._clock = clock
        self._ledger = app.parts().ledger

    def events(self, end: int, run: RunTick) -> list[tuple[float, Callable[[], None]]]:
        """For each tick, when it is due, in seconds before the end, and what to do then."""
        if self._ledger is None:
            return []
        found: list[tuple[float, Callable[[], None]]] = []
        for schedule in self._app.schedules.all():
            if schedule.job.environments:
                continue
            tick = schedule.after(end - DAY_SECONDS * MICROSECOND)
            while tick is not None and tick <= end:
                place = len(found)
                found.append(((tick - end) / MICROSECOND, self._event(schedule, tick, place, run)))
                tick = schedule.after(tick)
        return found

    def _event(self, schedule: Schedule, tick: int, place: int, run: RunTick) -> Callable[[], None]:
        def enter() -> None:
            assert self._ledger is not None
            state, why = self._outcome(schedule, place)
            id = tick_id(schedule.name, tick)
            record = TickRecord(id=id, schedule=schedule.name, tick=tick, due=tick, state="intended")
            self._ledger.enter([record])
            if state == "skipped":
                self._ledger.note([Note(id, "skipped", why)])
                return
            self._ledger.note([Note(id, "enqueued")])
            run(schedule.occurrence(tick), state == "failed")
            if state != "enqueued":
                self._ledger.note([Note(id, state, why)])

        return enter

    def _outcome(self, schedule: Schedule, place: int) -> tuple[TickState, str | None]:
        match schedule.name:
            case "fetch-prices" if place % 9 == 4:
                return "failed", "retries_exhausted"
            case "clean-carts" if place % 11 == 7:
                return "skipped", "the tick before it has not ended"
            case "stock-import" if place % 6 == 3:
                return "skipped", "missed: no scheduler ran at its time"
        return "succeeded", None

    def pause(self, name: str) -> None:
        if self._ledger is not None:
            self._ledger.pause(name)
