"""Schedules: those of one app, registered as builders and read as frozen values."""

from collections.abc import Callable
from typing import Any

from tenure.cron.builder import ScheduleBuilder
from tenure.cron.dependencies import in_order
from tenure.cron.schedule import Schedule
from tenure.definition.job import Job
from tenure.errors import InvalidSchedule, TenureError


class Schedules:
    """Registering is cheap and checks each word; what schedules say of each other is checked when they are read."""

    def __init__(self, timezone: str, check: Callable[[Job], Any], register: Callable[[], None]) -> None:
        """`check` raises when a job could not be enqueued; `register` is called once, before the first reading."""
        self._timezone = timezone
        self._check = check
        self._register: Callable[[], None] | None = register
        self._builders: list[ScheduleBuilder] = []

    def add(self, builder: ScheduleBuilder) -> ScheduleBuilder:
        self._builders.append(builder)
        return builder

    def all(self) -> tuple[Schedule, ...]:
        """Every schedule, after those that it depends on."""
        self._complete()
        found: dict[str, Schedule] = {}
        for builder in self._builders:
            schedule = builder.freeze(self._timezone)
            self._check_job(schedule)
            if schedule.name in found:
                raise InvalidSchedule(
                    f"two schedules are called {schedule.name!r}; give one another name with named(...) "
                    "(without it a schedule is called as its handler)"
                )
            found[schedule.name] = schedule
        return in_order(list(found.values()))

    def _check_job(self, schedule: Schedule) -> None:
        try:
            self._check(schedule.job)
        except TenureError as error:
            raise InvalidSchedule(f"schedule {schedule.name!r} could never run: {error}") from error

    def _complete(self) -> None:
        register, own = self._register, list(self._builders)
        self._register = None
        try:
            if register is not None:
                register()
        except BaseException:  # half of the schedules must not pass for all of them
            self._register, self._builders = register, own
            raise

    def get(self, name: str) -> Schedule:
        """The schedule of this name."""
        known = {schedule.name: schedule for schedule in self.all()}
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidSchedule(f"no schedule is called {name!r}; there are: {listed}")
        return known[name]
