"""Schedule: a job, when it is due, and its policies, as one frozen value; and the ticks of a schedule.

A tick is one instant at which a schedule is due. Every process computes the same ticks with the same ids.
Moments and ticks are integers: UTC microseconds.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Literal, get_args

from msgspec import Struct

from tenure.backends.ledger import is_by_hand
from tenure.clock import MICROSECOND, to_microseconds
from tenure.definition.cron_expression import CronExpression, find_zone, parse_expression
from tenure.definition.interval import is_interval, parse_interval
from tenure.definition.job import Job
from tenure.errors import InvalidSchedule

MINUTE = 60 * MICROSECOND
MisfirePolicy = Literal["skip", "latest", "all"]
Overlap = Literal["allow", "skip", "queue_one"]
Missing = Literal["auto", "after", "skip"]
Repeated = Literal["auto", "first", "second", "both"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)
_ID_MARK = "7c40"  # in a tick's id, in place of the sub-millisecond bits; 1 of 4096 other ids has the same value
_ID_MARK_PLACE = slice(14, 18)
_ID_RANDOM_BITS = (1 << 62) - 1


class Misfire(Struct, frozen=True):
    """What to do with missed ticks.

    `skip` runs ticks that are at most `grace` seconds late; of an interval, only the last tick. `latest` runs the last
    missed tick, however late.
    `all` runs the last `limit` ticks that are not older than `age` seconds.
    """

    policy: MisfirePolicy = "skip"
    grace: float = 60.0
    limit: int = 100
    age: float = 86_400.0

    def __post_init__(self) -> None:
        if self.policy not in get_args(MisfirePolicy):
            known = ", ".join(get_args(MisfirePolicy))
            raise InvalidSchedule(f"misfire must be one of {known}, got {self.policy!r}")
        if type(self.limit) is not int or self.limit < 1:
            raise InvalidSchedule(f"misfire needs limit to be a whole number of at least 1, got {self.limit!r}")


class Daylight(Struct, frozen=True):
    """What to do with local times that a clock change skips (`missing`) or shows twice (`repeated`).

    `auto` does what Debian's cron does. An expression that names its minutes and hours runs right after a missing time
    and once in a repeated one. An expression with a star in either field follows real time.
    """

    missing: Missing = "auto"
    repeated: Repeated = "auto"

    def __post_init__(self) -> None:
        for name, known in (("missing", get_args(Missing)), ("repeated", get_args(Repeated))):
            if getattr(self, name) not in known:
                raise InvalidSchedule(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")

    def resolve(self, expression: CronExpression) -> tuple[Missing, Repeated]:
        """The policy for this expression, with `auto` replaced."""
        automatic: tuple[Missing, Repeated] = ("after", "first") if expression.is_fixed else ("skip", "both")
        return (
            automatic[0] if self.missing == "auto" else self.missing,
            automatic[1] if self.repeated == "auto" else self.repeated,
        )


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """`starts_at` is the earliest moment at which a tick may be due; at `ends_at` and later none is.

    The job holds the rest: whether the schedule is enabled, its environments and its dependencies.
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

    def __post_init__(self) -> None:
        if self.job.cron is None:
            raise InvalidSchedule(
                f'schedule {self.name!r} does not say when it is due; write it, such as .daily_at("02:00"), '
                '.every("10m") or .cron("0 2 * * *")'
            )

    @property
    def expression(self) -> str:
        return str(self.job.cron)

    @cached_property
    def interval(self) -> int | None:
        """The seconds between two ticks, if the schedule is an interval and not a cron expression."""
        return parse_interval(self.expression) if is_interval(self.expression) else None

    @cached_property
    def ticks(self) -> "Ticks | IntervalTicks":
        zone = find_zone(self.timezone)
        if self.interval is not None:
            return IntervalTicks(self.interval, zone)
        return Ticks(parse_expression(self.expression), zone, self.daylight)

    def after(self, moment: int) -> int | None:
        """The first tick after this moment; None if there is none."""
        earliest = exact_datetime(moment)
        if self.starts_at is not None:
            earliest = max(earliest, self.starts_at - _INSTANT)
        tick = self.ticks.after(earliest)
        return None if tick is None or (self.ends_at is not None and tick >= self.ends_at) else to_microseconds(tick)

    def before(self, moment: int) -> int | None:
        """The last tick before this moment; None if there is none."""
        latest = exact_datetime(moment)
        if self.ends_at is not None:
            latest = min(latest, self.ends_at)
        tick = self.ticks.before(latest)
        return None if tick is None or (self.starts_at is not None and tick < self.starts_at) else to_microseconds(tick)

    def tick_of(self, moment: int) -> int | None:
        """The tick in the minute of this moment, if there is one; of several ticks in a minute the last so far."""
        minute = moment - moment % MINUTE
        tick = self.before(minute + MINUTE if self.interval is None else moment + 1)
        return tick if tick is not None and tick >= minute else None

    def due_at(self, tick: int) -> int:
        """When a tick may run: the tick plus its jitter, which is fixed for the tick and ends before the next tick.

        A tick that is run by hand has no jitter.
        """
        if not self.jitter or is_by_hand(tick):
            return tick
        following = self.after(tick)
        longest = round(self.jitter * MICROSECOND)
        if following is not None:
            longest = min(longest, following - tick)
        return tick + int(longest * jitter_share(self.name, tick))

    def occurrence(self, tick: int) -> Job:
        """The job of one tick; every process gives it the same id, so that the backend stores it once."""
        key = tick_key(self.name, tick)
        return self.job.replace(
            id=tick_id(self.name, tick),
            name=self.name,
            idempotency_key=self.job.idempotency_key or f"cron:{key}",
            meta={"schedule": self.name, "tick": key.removeprefix(f"{self.name}@"), **self.job.meta},
        )


class DueTick(Struct, frozen=True):
    """A tick to run."""

    schedule: Schedule
    tick: int


class Ticks:
    """The instants, in UTC, at which an expression is due in a time zone.

    A label is what a clock in the zone shows. A label that the clock shows once is one instant. Labels that a clock
    change skips or shows twice follow a policy; `docs/explanation/schedules-and-dst.md` explains why.
    """

    def __init__(self, expression: CronExpression, zone: tzinfo, daylight: Daylight | None = None) -> None:
        self.expression = expression
        self.zone = zone
        self._missing, self._repeated = (daylight or Daylight()).resolve(expression)

    def after(self, moment: datetime) -> datetime | None:
        """The first tick after this moment."""
        here = moment.astimezone(self.zone)
        found = self._first_after(here.replace(tzinfo=None), moment)
        if self._repeated != "first" and not here.fold and (change := repetition_start(here, self.zone)):
            # The clock will show the labels from the start of the repeated hour up to here once more.
            start = change.astimezone(self.zone).replace(tzinfo=None)
            again = self._first_after(start - _INSTANT, moment)
            found = min(found, again) if found and again else found or again
        return found

    def before(self, moment: datetime) -> datetime | None:
        """The last tick before this moment."""
        here = moment.astimezone(self.zone)
        found = self._last_before(here.replace(tzinfo=None), moment)
        if self._repeated != "second" and here.fold and (change := repetition_start(here, self.zone)):
            # The clock has already shown the labels from here to the end of the repeated hour once.
            end = (change - _INSTANT).astimezone(self.zone).replace(tzinfo=None)
            earlier = self._last_before(end + _INSTANT, moment)
            found = max(found, earlier) if found and earlier else found or earlier
        return found

    def at(self, moment: datetime) -> bool:
        """Whether this exact moment is a tick."""
        return self.before(moment + _INSTANT) == moment

    def between(self, begin: datetime, end: datetime) -> Iterator[datetime]:
        """The ticks after `begin`, up to and including `end`."""
        tick = self.after(begin)
        while tick is not None and tick <= end:
            yield tick
            tick = self.after(tick)

    def _first_after(self, label: datetime, moment: datetime) -> datetime | None:
        found = self.expression.after(label)
        while found is not None:
            later = [each for each in self._instants(found) if each > moment]
            if later:
                return later[0]
            found = self.expression.after(found)
        return None

    def _last_before(self, label: datetime, moment: datetime) -> datetime | None:
        found = self.expression.before(label)
        while found is not None:
            earlier = [each for each in self._instants(found) if each < moment]
            if earlier:
                return earlier[-1]
            found = self.expression.before(found)
        return None

    def _instants(self, label: datetime) -> list[datetime]:
        first, second = instants_of(label, self.zone)
        if first == second:
            return [first]
        if first > second:  # the clock skips this label
            return [offset_change(second, first, self.zone)] if self._missing == "after" else []
        return {"first": [first], "second": [second]}.get(self._repeated, [first, second])


class IntervalTicks:
    """The instants, in UTC, that are multiples of an interval since the epoch; the zone is only for display."""

    def __init__(self, seconds: int, zone: tzinfo) -> None:
        self.zone = zone
        self._length = seconds * MICROSECOND

    def after(self, moment: datetime) -> datetime | None:
        """The first tick after this moment."""
        return self._tick(to_microseconds(moment) // self._length + 1)

    def before(self, moment: datetime) -> datetime | None:
        """The last tick before this moment."""
        return self._tick((to_microseconds(moment) - 1) // self._length)

    def _tick(self, number: int) -> datetime | None:
        try:
            return exact_datetime(number * self._length)
        except OverflowError:  # the calendar ends in the year 9999
            return None


def instants_of(label: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The instants of a label by the offset before and the offset after a clock change; else they are equal."""
    local = label.replace(tzinfo=zone)
    return local.replace(fold=0).astimezone(UTC), local.replace(fold=1).astimezone(UTC)


def repetition_start(here: datetime, zone: tzinfo) -> datetime | None:
    """When the clock goes back, if it shows this local time twice."""
    first, second = instants_of(here.replace(tzinfo=None), zone)
    return offset_change(first, second, zone) if first < second else None


def offset_change(begin: datetime, end: datetime, zone: tzinfo) -> datetime:
    """The first instant whose offset differs from that of `begin`; the offset of `end` must differ."""
    before = begin.astimezone(zone).utcoffset()
    while end - begin > timedelta(seconds=1):
        middle = begin + (end - begin) / 2
        begin, end = (middle, end) if middle.astimezone(zone).utcoffset() == before else (begin, middle)
    return end.replace(microsecond=0)


def tick_key(name: str, tick: int) -> str:
    """The readable name of a tick: `report@2026-11-15T02:00Z`."""
    return f"{name}@{tick_text(tick)}"


def tick_text(tick: int) -> str:
    """The time of a tick; with its second only if it is not 0, as keys of older releases have none.

    A tick that was run by hand has a fraction too, so that no tick of the schedule has the same key.
    """
    moment = exact_datetime(tick)
    if is_by_hand(tick):
        return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
    return f"{moment:{'%Y-%m-%dT%H:%M:%SZ' if tick % MINUTE else '%Y-%m-%dT%H:%MZ'}}"


def tick_id(name: str, tick: int) -> str:
    """The id of a tick and its job: a UUIDv7 of the tick's time, with a hash of its name as the random part."""
    milliseconds, random = tick // 1000, int.from_bytes(_digest("id", name, tick)[:8]) & _ID_RANDOM_BITS
    return (
        f"{milliseconds >> 16 & 0xFFFFFFFF:08x}-{milliseconds & 0xFFFF:04x}-{_ID_MARK}-"
        f"{0x8000 | random >> 48:04x}-{random & 0xFFFFFFFFFFFF:012x}"
    )


def is_tick_id(id: str) -> bool:
    """Whether this may be the id of a tick's job; cheap enough to call for every job that ends."""
    return id[_ID_MARK_PLACE] == _ID_MARK


def jitter_share(name: str, tick: int) -> float:
    """A number from 0 up to 1: fixed for this tick, evenly spread over ticks and schedules."""
    return int.from_bytes(_digest("jitter", name, tick)[:8]) / (1 << 64)


def exact_datetime(microseconds: int) -> datetime:
    """The moment in UTC; exact, while a division of floats could lose the last microsecond."""
    return _EPOCH + timedelta(microseconds=microseconds)


def _digest(use: str, name: str, tick: int) -> bytes:
    return hashlib.sha256(f"{use}\0{name}\0{tick}".encode()).digest()
