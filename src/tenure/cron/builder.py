"""ScheduleBuilder and Schedules: how an app declares its schedules, and the registry that checks them.

`app.schedule(job).daily_at("02:00").queue("emails")` adds a builder. The registry turns builders into schedules when
they are first needed.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any, Self, TypeVar, get_args

from tenure.cron.schedule import Daylight, Misfire, MisfirePolicy, Missing, Overlap, Repeated, Schedule
from tenure.definition.builder import Dispatch, JobBuilder
from tenure.definition.cron_expression import find_zone
from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.job import Job
from tenure.errors import InvalidSchedule, TenureError

logger = logging.getLogger(__name__)

_MAX_NAME_LENGTH = 200


B = TypeVar("B", bound=JobBuilder)


def _notes_refusals(cls: type[B]) -> type[B]:
    """Let every word of a builder, which is a method that returns Self, note in `refusal` how its last call ended."""
    for name, word in inspect.getmembers(cls, inspect.isfunction):
        if word.__annotations__.get("return") is Self and not name.startswith("_"):
            setattr(cls, name, _noting_refusal(word))
    return cls


def _noting_refusal(word: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(word)
    def noting(builder: "ScheduleBuilder", *arguments: Any, **options: Any) -> Any:
        try:
            returned = word(builder, *arguments, **options)
        except Exception as error:
            builder.refusal = f"{word.__name__}: {error}"
            raise
        builder.refusal = None
        return returned

    return noting


@_notes_refusals
class ScheduleBuilder(JobBuilder):
    """The methods of a job's builder and those of schedules; it inherits, as 40 methods written twice would differ.

    The app registers the schedule when it first reads its schedules; calls may follow until then. If the last call was
    refused, `refusal` says why, and the schedule is not registered: without the refused word it would mean another time
    or place.
    """

    def __init__(self, job: Job, dispatch: Dispatch) -> None:
        super().__init__(job, dispatch)
        self.refusal: str | None = None
        self._daylight = Daylight()
        self._jitter = 0.0
        self._misfire = Misfire()
        self._overlap: Overlap = "allow"
        self._starts_at: datetime | None = None
        self._ends_at: datetime | None = None
        self._inline = False

    def daylight(self, missing: Missing = "auto", repeated: Repeated = "auto") -> Self:
        """What to do with local times that a clock change skips or shows twice."""
        self._daylight = Daylight(missing, repeated)
        return self

    def jitter(self, limit: Duration) -> Self:
        """Delay each tick by up to this much to spread the load; the delay of one tick never changes."""
        self._jitter = to_seconds(limit, "jitter")
        return self

    def misfire(self, policy: MisfirePolicy, *, grace: Duration = 60, limit: int = 100, age: Duration = "1d") -> Self:
        """What to do with missed ticks: `skip` those later than `grace`, run the `latest`, or `all` within bounds."""
        self._misfire = Misfire(policy, to_seconds(grace, "grace"), limit, to_seconds(age, "age"))
        return self

    def overlap(self, policy: Overlap) -> Self:
        """Whether a tick starts before an earlier one has ended: `allow`, `skip` or `queue_one`."""
        if policy not in get_args(Overlap):
            raise InvalidSchedule(f"overlap must be one of {', '.join(get_args(Overlap))}, got {policy!r}")
        self._overlap = policy
        return self

    def starts_at(self, moment: datetime) -> Self:
        """No tick before this moment."""
        self._starts_at = to_moment(moment, "starts_at")
        return self

    def ends_at(self, moment: datetime) -> Self:
        """No tick at this moment or later."""
        self._ends_at = to_moment(moment, "ends_at")
        return self

    def inline(self, inline: bool = True) -> Self:
        """Run the job in the scheduler, for one attempt, instead of on a queue."""
        self._inline = inline
        return self

    def freeze(self, timezone: str) -> Schedule:
        """The schedule; `timezone` applies if the builder names none."""
        job = self.build()
        name = job.name or job.handler
        if not name.isprintable() or len(name) > _MAX_NAME_LENGTH:
            raise InvalidSchedule(
                f"{name!r:.60} cannot name a schedule; use 1 to {_MAX_NAME_LENGTH} printable characters"
            )
        if self._starts_at and self._ends_at and self._starts_at >= self._ends_at:
            raise InvalidSchedule(f"schedule {name!r} ends at {self._ends_at}, before it starts at {self._starts_at}")
        zone = job.timezone or timezone
        find_zone(zone)  # a Job that the user made directly may hold a wrong name
        return Schedule(
            name=name,
            job=job,
            timezone=zone,
            daylight=self._daylight,
            jitter=self._jitter,
            misfire=self._misfire,
            overlap=self._overlap,
            starts_at=self._starts_at,
            ends_at=self._ends_at,
            inline=self._inline,
        )


class Schedules:
    """The schedules of one app.

    Each builder call is checked at once. Names and dependencies are checked when the app reads its schedules.
    """

    def __init__(self, timezone: str, check: Callable[[Schedule], Any], register: Callable[[], None]) -> None:
        """`check` raises if a schedule could never run; `register` is called once, before the first read."""
        self.timezone = timezone
        self._check = check
        self._register: Callable[[], None] | None = register
        self._builders: list[ScheduleBuilder] = []

    def add(self, builder: ScheduleBuilder) -> ScheduleBuilder:
        self._builders.append(builder)
        return builder

    def all(self) -> tuple[Schedule, ...]:
        """Every schedule, each after those that it depends on."""
        self._register_once()
        found: dict[str, Schedule] = {}
        self._drop_refused()
        for builder in self._builders:
            schedule = builder.freeze(self.timezone)
            self._check_job(schedule)
            if schedule.name in found:
                raise InvalidSchedule(
                    f"two schedules are called {schedule.name!r}; give one another name with named(...) "
                    "(a schedule without it is named after its handler)"
                )
            found[schedule.name] = schedule
        return in_dependency_order(list(found.values()))

    def get(self, name: str) -> Schedule:
        """The schedule of this name."""
        known = {schedule.name: schedule for schedule in self.all()}
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidSchedule(f"no schedule is called {name!r}; there are: {listed}")
        return known[name]

    def _register_once(self) -> None:
        register, own = self._register, list(self._builders)
        self._register = None
        try:
            if register is not None:
                register()
        except BaseException:  # drop the schedules of a failed call: the next read calls it again
            self._register, self._builders = register, own
            raise

    def _drop_refused(self) -> None:
        for builder in self._builders:
            if builder.refusal is not None:
                name = builder.build().name or builder.build().handler
                logger.warning("schedule %r is not registered: %s", name, builder.refusal)
        self._builders = [builder for builder in self._builders if builder.refusal is None]

    def _check_job(self, schedule: Schedule) -> None:
        try:
            self._check(schedule)
        except TenureError as error:
            raise InvalidSchedule(f"schedule {schedule.name!r} could never run: {error}") from error


def in_dependency_order(schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Each schedule after its dependencies, else in the order of declaration; refuses unknown names and cycles."""
    places = {schedule.name: place for place, schedule in enumerate(schedules)}
    dependents: dict[str, list[int]] = {name: [] for name in places}
    missing = []  # by place: how many dependencies are not in `ordered` yet
    for place, schedule in enumerate(schedules):
        needed = set(schedule.job.depends_on)
        for name in sorted(needed - places.keys()):
            known = ", ".join(sorted(places.keys() - {schedule.name})) or "no others"
            raise InvalidSchedule(
                f"schedule {schedule.name!r} depends on {name!r}, which is unknown; there are: {known}"
            )
        for name in needed:
            dependents[name].append(place)
        missing.append(len(needed))
    ready = [place for place, count in enumerate(missing) if not count]
    heapify(ready)
    ordered: list[Schedule] = []
    while ready:
        ordered.append(schedules[heappop(ready)])
        for place in dependents[ordered[-1].name]:
            missing[place] -= 1
            if not missing[place]:
                heappush(ready, place)
    if len(ordered) < len(schedules):
        raise InvalidSchedule(f"schedules depend on each other in a circle: {_cycle(schedules, missing)}")
    return tuple(ordered)


def _cycle(schedules: Sequence[Schedule], missing: Sequence[int]) -> str:
    """One of the cycles, as a path that ends where it begins."""
    stuck = {schedule.name: schedule for schedule, count in zip(schedules, missing, strict=True) if count}
    path = [next(iter(stuck))]
    while True:
        name = next(each for each in stuck[path[-1]].job.depends_on if each in stuck)
        if name in path:
            return " → ".join([*path[path.index(name) :], name])
        path.append(name)
