"""ScheduleBuilder: a schedule described in a chain of words, `app.schedule(job).daily_at("02:00").queue("emails")`."""

from datetime import datetime
from typing import Self

from tenure.cron.misfire import Misfire, MisfirePolicy
from tenure.cron.overlap import Overlap, check_overlap
from tenure.cron.schedule import Schedule
from tenure.cron.ticks import Daylight, Missing, Repeated
from tenure.definition.builder import Dispatch, JobBuilder
from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.job import Job
from tenure.definition.zones import find_zone
from tenure.errors import InvalidSchedule

_LONGEST_NAME = 200


class ScheduleBuilder(JobBuilder):
    """Every word of a job's builder, and those of schedules: inherited, as forty words written twice would drift apart.

    It is registered when it is made; words may follow until the schedules are first read.
    """

    def __init__(self, job: Job, dispatch: Dispatch) -> None:
        super().__init__(job, dispatch)
        self._daylight = Daylight()
        self._jitter = 0.0
        self._misfire = Misfire()
        self._overlap: Overlap = "allow"
        self._starts_at: datetime | None = None
        self._ends_at: datetime | None = None
        self._inline = False

    def daylight(self, missing: Missing = "auto", repeated: Repeated = "auto") -> Self:
        """What becomes of local times that a change of the clock leaves out, or shows twice."""
        self._daylight = Daylight(missing, repeated)
        return self

    def jitter(self, most: Duration) -> Self:
        """Let each tick run up to this much later, always the same for one tick, to spread the load."""
        self._jitter = to_seconds(most, "jitter")
        return self

    def misfire(self, policy: MisfirePolicy, *, grace: Duration = 60, most: int = 100, age: Duration = "1d") -> Self:
        """What to do about missed ticks: `skip` those later than `grace`, run the `latest`, or `all` within bounds."""
        self._misfire = Misfire(policy, to_seconds(grace, "grace"), most, to_seconds(age, "age"))
        return self

    def overlap(self, policy: Overlap) -> Self:
        """Whether a tick starts while an earlier one has not ended: `allow`, `skip` or `queue_one`."""
        self._overlap = check_overlap(policy)
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
        """Run in the scheduler itself, for one attempt, instead of on a queue."""
        self._inline = inline
        return self

    def freeze(self, timezone: str) -> Schedule:
        """The schedule; `timezone` is for those that did not name one."""
        job = self.build()
        name = job.name or job.handler
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            raise InvalidSchedule(f"{name!r:.60} cannot name a schedule; use 1 to {_LONGEST_NAME} printable characters")
        if self._starts_at and self._ends_at and self._starts_at >= self._ends_at:
            raise InvalidSchedule(f"schedule {name!r} ends at {self._ends_at}, before it starts at {self._starts_at}")
        zone = job.timezone or timezone
        find_zone(zone)  # a Job may have been made by hand
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
