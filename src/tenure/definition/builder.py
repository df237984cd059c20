"""JobBuilder: a job described in a chain of words, `define("report").queue("slow").max_retries(3).dispatch()`."""

from collections.abc import Callable, Iterable
from datetime import datetime, time
from typing import Any, Literal, Self, Unpack

from tenure.definition import frequency
from tenure.definition.duration import Duration
from tenure.definition.expression import read
from tenure.definition.frequency import Frequency
from tenure.definition.job import Job
from tenure.definition.options import JobOptions, PriorityName
from tenure.definition.retry import Backoff, Strategy
from tenure.definition.zones import find_zone

Dispatch = Callable[[Job, str | None], str]
TimeOfDay = str | time


class JobBuilder:
    """Mutable and chainable; `build` gives the frozen Job, `dispatch` enqueues it and gives its id."""

    def __init__(self, job: Job, dispatch: Dispatch) -> None:
        self._job = job
        self._dispatch = dispatch
        self._frequency = Frequency() if job.cron is None else frequency.parse(job.cron)

    def build(self) -> Job:
        return self._job

    def dispatch(self, backend: str | None = None) -> str:
        """Enqueue on the app's backend, or on the one at this URL."""
        return self._dispatch(self._job, backend)

    def options(self, **options: Unpack[JobOptions]) -> Self:
        self._job = self._job.replace(**options)
        return self

    def named(self, name: str) -> Self:
        return self.options(name=name)

    def queue(self, queue: str) -> Self:
        return self.options(queue=queue)

    def priority(self, priority: int | PriorityName) -> Self:
        return self.options(priority=priority)

    def max_retries(self, count: int) -> Self:
        return self.options(max_retries=count)

    def timeout(self, timeout: Duration | None) -> Self:
        return self.options(timeout=timeout)

    def scheduled_at(self, moment: datetime) -> Self:
        return self.options(at=moment)

    def delay(self, delay: Duration) -> Self:
        return self.options(delay=delay)

    def expires_at(self, moment: datetime) -> Self:
        return self.options(expires_at=moment)

    def single_instance(self, single: bool = True) -> Self:
        return self.options(single_instance=single)

    def idempotency_key(self, key: str, ttl: Duration | None = None) -> Self:
        """Jobs with the same key succeed once within `ttl`, a day unless told otherwise."""
        return self.options(idempotency_key=key, idempotency_ttl=ttl)

    def key(self, key: str) -> Self:
        """What `at_most` and `rate` count by, such as a tenant, instead of the handler."""
        return self.options(key=key)

    def at_most(self, count: int) -> Self:
        return self.options(at_most=count)

    def rate(self, rate: str | int) -> Self:
        return self.options(rate=rate)

    def breaker(self, name: str) -> Self:
        return self.options(breaker=name)

    def unique(self, key: str, duplicate: Literal["return", "refuse"] = "return") -> Self:
        """While a job with this key waits or runs, another is not stored."""
        return self.options(unique=key, duplicate=duplicate)

    def backoff(self, backoff: Backoff | Strategy) -> Self:
        return self.options(backoff=backoff)

    def meta(self, **meta: Any) -> Self:
        return self.options(meta={**self._job.meta, **meta})

    def then(self, *jobs: "Job | JobBuilder") -> Self:
        """Enqueue these once the job has succeeded."""
        return self._followed_by("then", jobs)

    def on_failure(self, *jobs: "Job | JobBuilder") -> Self:
        """Enqueue these once the job is dead."""
        return self._followed_by("on_failure", jobs)

    def finally_(self, *jobs: "Job | JobBuilder") -> Self:
        """Enqueue these once the job has ended, however it did."""
        return self._followed_by("finally_", jobs)

    def chain(self, *jobs: "Job | JobBuilder") -> Self:
        """Enqueue these one after the other, each when the one before has succeeded."""
        return self._followed_by("chain", jobs)

    def environments(self, *names: str | Iterable[str]) -> Self:
        return self.options(environments=_flat(names))

    def depends_on(self, *names: str | Iterable[str]) -> Self:
        return self.options(depends_on=_flat(names))

    def enabled(self, enabled: bool = True) -> Self:
        return self.options(enabled=enabled)

    def disable(self) -> Self:
        return self.enabled(False)

    def timezone(self, name: str) -> Self:
        """The zone whose clock the schedule follows, instead of the app's: "Europe/Madrid"."""
        find_zone(name)
        return self._replaced(timezone=name)

    def cron(self, expression: str, timezone: str | None = None) -> Self:
        """Five fields or a nickname such as "@daily"; replaces every field set before."""
        return self._often(frequency.parse(expression), timezone)

    def every_minute(self, n: int = 1) -> Self:
        return self._set(minute=frequency.step(n, 59, "minutes"))

    def every_x_minutes(self, n: int) -> Self:
        return self.every_minute(n)

    def every_five_minutes(self) -> Self:
        return self.every_minute(5)

    def every_fifteen_minutes(self) -> Self:
        return self.every_minute(15)

    def every_thirty_minutes(self) -> Self:
        return self.every_minute(30)

    def hourly(self, minute: int = 0) -> Self:
        return self._set(minute=frequency.number(minute, 0, 59, "minute"), hour="*")

    def hourly_at(self, minute: int) -> Self:
        return self.hourly(minute)

    def every_hour(self, n: int = 1, minute: int = 0) -> Self:
        return self._set(minute=frequency.number(minute, 0, 59, "minute"), hour=frequency.step(n, 23, "hours"))

    def daily(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone)

    def daily_at(self, time: TimeOfDay, timezone: str | None = None) -> Self:
        return self._at(time, timezone)

    def weekly(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="0")

    def monthly(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, day="1")

    def quarterly(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, day="1", month="*/3")

    def yearly(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, day="1", month="1")

    def weekdays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="1-5")

    def weekends(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="6-7")

    def sundays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="0")

    def mondays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="1")

    def tuesdays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="2")

    def wednesdays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="3")

    def thursdays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="4")

    def fridays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="5")

    def saturdays(self, time: TimeOfDay = "00:00", timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="6")

    def days(self, days: int | Iterable[int]) -> Self:
        """Days of the week, 0 (Sunday) to 6."""
        return self._set(weekday=frequency.listing(days, 0, 6, "day of the week"))

    def days_of_month(self, days: int | Iterable[int]) -> Self:
        return self._set(day=frequency.listing(days, 1, 31, "day of the month"))

    def months(self, months: int | Iterable[int]) -> Self:
        return self._set(month=frequency.listing(months, 1, 12, "month"))

    def hours(self, hours: int | Iterable[int]) -> Self:
        return self._set(hour=frequency.listing(hours, 0, 23, "hour"))

    def between_hours(self, first: int, last: int) -> Self:
        return self._set(hour=frequency.span(first, last, 23, "hour"))

    def minutes(self, minutes: int | Iterable[int]) -> Self:
        return self._set(minute=frequency.listing(minutes, 0, 59, "minute"))

    def between_minutes(self, first: int, last: int) -> Self:
        return self._set(minute=frequency.span(first, last, 59, "minute"))

    def _followed_by(self, kind: str, jobs: "tuple[Job | JobBuilder, ...]") -> Self:
        built = [each.build() if isinstance(each, JobBuilder) else each for each in jobs]
        self._job = self._job.replace(**{kind: (*getattr(self._job, kind), *built)})  # type: ignore[arg-type]
        return self

    def _at(self, time: TimeOfDay, timezone: str | None, **fields: str) -> Self:
        return self._often(self._frequency.at(time).set(**fields), timezone)

    def _set(self, **fields: str) -> Self:
        return self._often(self._frequency.set(**fields))

    def _often(self, often: Frequency, timezone: str | None = None) -> Self:
        read(str(often))  # words that are right one by one may never come together: 31 and February
        if timezone is not None:
            self.timezone(timezone)
        self._frequency = often
        return self._replaced(cron=str(often))

    def _replaced(self, **fields: str) -> Self:
        self._job = self._job.replace(**fields)  # type: ignore[arg-type]
        return self


def _flat(names: tuple[str | Iterable[str], ...]) -> tuple[str, ...]:
    """Names given one by one, as lists, or both."""
    return tuple(name for each in names for name in ((each,) if isinstance(each, str) else each))
