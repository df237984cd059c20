"""Schedule: a job, when it is due, and what to do when that goes wrong, as one frozen value."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

from tenure.clock import MICROSECOND, to_microseconds
from tenure.cron.misfire import Misfire
from tenure.cron.occurrence import jitter_share, job_id, tick_key
from tenure.cron.overlap import Overlap
from tenure.cron.ticks import Daylight, Ticks
from tenure.definition.expression import read
from tenure.definition.job import Job
from tenure.definition.zones import find_zone

EVERY_MINUTE = "* * * * *"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)
_MINUTE = 60 * MICROSECOND


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Moments and ticks are UTC microseconds; `starts_at` is the first that may be due, `ends_at` the first not to be.

    Whether it is enabled, where it runs and what it depends on are said by its job.
    """

    name: str
    job: Job
    timezone: str = "UTC"
    daylight: Daylight = field(default_factory=Daylight)
    jitter: float = 0.0
    misfire: Misfire = field(default_factory=Misfire)
    overlap: Overlap = "allow"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    inline: bool = False

    @property
    def expression(self) -> str:
        return self.job.cron or EVERY_MINUTE

    @cached_property
    def ticks(self) -> Ticks:
        return Ticks(read(self.expression), find_zone(self.timezone), self.daylight)

    def after(self, moment: int) -> int | None:
        """The first tick later than this moment; None when there is none to come."""
        earliest = to_moment(moment)
        if self.starts_at is not None:
            earliest = max(earliest, self.starts_at - _INSTANT)
        tick = self.ticks.after(earliest)
        return None if tick is None or (self.ends_at is not None and tick >= self.ends_at) else to_microseconds(tick)

    def before(self, moment: int) -> int | None:
        """The last tick earlier than this moment; None when there was none."""
        latest = to_moment(moment)
        if self.ends_at is not None:
            latest = min(latest, self.ends_at)
        tick = self.ticks.before(latest)
        return None if tick is None or (self.starts_at is not None and tick < self.starts_at) else to_microseconds(tick)

    def tick_of(self, moment: int) -> int | None:
        """The tick in the minute of this moment, if there is one."""
        minute = moment - moment % _MINUTE
        tick = self.before(minute + _MINUTE)
        return tick if tick is not None and tick >= minute else None

    def due_at(self, tick: int) -> int:
        """When a tick may run: its jitter later, which stays the same, and never reaches the tick after it."""
        if not self.jitter:
            return tick
        following = self.after(tick)
        room = round(self.jitter * MICROSECOND)
        if following is not None:
            room = min(room, following - tick)
        return tick + int(room * jitter_share(self.name, tick))

    def occurrence(self, tick: int) -> Job:
        """The job of one tick: whoever builds it gives it the same id, so that it is stored once."""
        key = tick_key(self.name, tick)
        return self.job.replace(
            id=job_id(self.name, tick),
            name=self.name,
            idempotency_key=self.job.idempotency_key or f"cron:{key}",
            meta={"schedule": self.name, "tick": key.removeprefix(f"{self.name}@"), **self.job.meta},
        )


def to_moment(microseconds: int) -> datetime:
    """Exact, where a division of floats could lose the last microsecond."""
    return _EPOCH + timedelta(microseconds=microseconds)
