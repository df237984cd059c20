"""JobBuilder: describes a job by chained calls, `define("report").queue("slow").max_retries(3).dispatch()`."""

from collections.abc import Callable, Iterable
from datetime import time
from typing import Any, Literal, Self, Unpack

from tenure.definition.cron_expression import (
    Frequency,
    find_zone,
    list_field,
    number_field,
    parse_expression,
    parse_frequency,
    range_field,
    step_field,
    zone_of,
)
from tenure.definition.duration import Duration
from tenure.definition.interval import format_interval, interval_seconds, is_interval, parse_interval
from tenure.definition.job import Job, JobOptions, JobSource, PriorityName
from tenure.definition.job_handle import JobHandle
from tenure.definition.moment import When
from tenure.definition.retry import Backoff, Strategy
from tenure.errors import InvalidSchedule

Dispatch = Callable[[Job, str | None], JobHandle[Any]]
TimeOfDay = str | time


class JobBuilder:
    """Mutable and chainable; `build` returns the frozen Job, `dispatch` enqueues it and returns its handle."""

    def __init__(self, job: Job, dispatch: Dispatch) -> None:
        self._job = job
        self._dispatch = dispatch
        has_fields = job.cron is not None and not is_interval(job.cron)
        self._frequency = parse_frequency(job.cron or "") if has_fields else Frequency()

    def build(self) -> Job:
        return self._job

    def dispatch(self, backend: str | None = None) -> JobHandle[Any]:
        """Enqueue on the backend of the app, or on the backend at this URL."""
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

    def scheduled_at(self, moment: When) -> Self:
        return self.options(at=moment)

    def delay(self, delay: Duration) -> Self:
        return self.options(delay=delay)

    def expires_at(self, moment: When) -> Self:
        return self.options(expires_at=moment)

    def single_instance(self, single: bool = True) -> Self:
        return self.options(single_instance=single)

    def idempotency_key(self, key: str, ttl: Duration | None = None) -> Self:
        """Of the jobs with this key, one succeeds within `ttl` (a day by default); the others are skipped."""
        return self.options(idempotency_key=key, idempotency_ttl=ttl)

    def key(self, key: str) -> Self:
        """Let `at_most` and `rate` count by this key, for example a tenant, instead of by the handler."""
        return self.options(key=key)

    def at_most(self, count: int) -> Self:
        return self.options(at_most=count)

    def rate(self, rate: str | int) -> Self:
        return self.options(rate=rate)

    def breaker(self, name: str) -> Self:
        return self.options(breaker=name)

    def unique(self, key: str, duplicate: Literal["return", "refuse"] = "return") -> Self:
        """While a job with this key waits or runs, no other job with this key is stored."""
        return self.options(unique=key, duplicate=duplicate)

    def backoff(self, backoff: Backoff | Strategy) -> Self:
        return self.options(backoff=backoff)

    def meta(self, **meta: Any) -> Self:
        return self.options(meta={**self._job.meta, **meta})

    def tags(self, *tags: str | Iterable[str]) -> Self:
        """Short words by which you find the job again; they replace the tags of the handler."""
        return self.options(tags=_flat(tags))

    def then(self, *jobs: Job | JobSource) -> Self:
        """Enqueue these jobs after this job has succeeded."""
        return self._followed_by("then", jobs)

    def on_failure(self, *jobs: Job | JobSource) -> Self:
        """Enqueue these jobs after this job was dead-lettered."""
        return self._followed_by("on_failure", jobs)

    def finally_(self, *jobs: Job | JobSource) -> Self:
        """Enqueue these jobs after this job has ended, with any result."""
        return self._followed_by("finally_", jobs)

    def chain(self, *jobs: Job | JobSource) -> Self:
        """Enqueue these jobs one after the other, each after the one before has succeeded."""
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
        """The time zone of the schedule, instead of that of the app: "Europe/Madrid"."""
        find_zone(name)
        return self._replace(timezone=name)

    def cron(self, expression: str, timezone: str | None = None) -> Self:
        """Five fields, a nickname such as "@daily", or "@every 10s"; replaces every field set before."""
        if is_interval(expression):
            self._frequency = Frequency()
            self.every(parse_interval(expression))
            return self if timezone is None else self.timezone(timezone)
        frequency = parse_frequency(expression)
        self._replace(cron=None)
        return self._set_frequency(frequency, timezone)

    def every(self, length: Duration) -> Self:
        """Due at each multiple of this length since 1970 in UTC, which is aligned: "10s", "90m"; at least a second."""
        seconds = interval_seconds(length)
        if self._frequency != Frequency():
            raise InvalidSchedule(f"every({length!r}) runs at all times, so no other word of time can go before it")
        return self._replace(cron=format_interval(seconds))

    def every_minute(self, n: int = 1) -> Self:
        return self._set(minute=step_field(n, 59, "minutes"))

    def every_x_minutes(self, n: int) -> Self:
        return self.every_minute(n)

    def every_five_minutes(self) -> Self:
        return self.every_minute(5)

    def every_fifteen_minutes(self) -> Self:
        return self.every_minute(15)

    def every_thirty_minutes(self) -> Self:
        return self.every_minute(30)

    def hourly(self, minute: int = 0) -> Self:
        return self._set(minute=number_field(minute, 0, 59, "minute"), hour="*")

    def hourly_at(self, minute: int) -> Self:
        return self.hourly(minute)

    def every_hour(self, n: int = 1, minute: int = 0) -> Self:
        return self._set(minute=number_field(minute, 0, 59, "minute"), hour=step_field(n, 23, "hours"))

    def daily(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone)

    def daily_at(self, time: TimeOfDay, timezone: str | None = None) -> Self:
        return self._set_frequency(self._frequency.at(time), zone_of(time, timezone))

    def weekly(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="0")

    def monthly(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, day="1")

    def quarterly(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, day="1", month="*/3")

    def yearly(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, day="1", month="1")

    def weekdays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="1-5")

    def weekends(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="6-7")

    def sundays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="0")

    def mondays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="1")

    def tuesdays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="2")

    def wednesdays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="3")

    def thursdays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="4")

    def fridays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="5")

    def saturdays(self, time: TimeOfDay | None = None, timezone: str | None = None) -> Self:
        return self._at(time, timezone, weekday="6")

    def days(self, days: int | Iterable[int]) -> Self:
        """Days of the week, 0 (Sunday) to 6."""
        return self._set(weekday=list_field(days, 0, 6, "day of the week"))

    def days_of_month(self, days: int | Iterable[int]) -> Self:
        return self._set(day=list_field(days, 1, 31, "day of the month"))

    def months(self, months: int | Iterable[int]) -> Self:
        return self._set(month=list_field(months, 1, 12, "month"))

    def hours(self, hours: int | Iterable[int]) -> Self:
        return self._set(hour=list_field(hours, 0, 23, "hour"))

    def between_hours(self, first: int, last: int) -> Self:
        return self._set(hour=range_field(first, last, 23, "hour"))

    def minutes(self, minutes: int | Iterable[int]) -> Self:
        return self._set(minute=list_field(minutes, 0, 59, "minute"))

    def between_minutes(self, first: int, last: int) -> Self:
        return self._set(minute=range_field(first, last, 59, "minute"))

    def _followed_by(self, kind: str, jobs: tuple[Job | JobSource, ...]) -> Self:
        self._job = self._job.replace(**{kind: (*getattr(self._job, kind), *jobs)})  # type: ignore[arg-type]
        return self

    def _at(self, time: TimeOfDay | None, timezone: str | None, **fields: str) -> Self:
        frequency = self._frequency.at_midnight() if time is None else self._frequency.at(time)
        return self._set_frequency(frequency.set(**fields), zone_of(time, timezone))

    def _set(self, **fields: str) -> Self:
        return self._set_frequency(self._frequency.set(**fields))

    def _set_frequency(self, frequency: Frequency, timezone: str | None = None) -> Self:
        if is_interval(self._job.cron):
            raise InvalidSchedule(
                f"{self._job.cron!r} runs at all times, so no other word of time can follow it; "
                "write the times without every(...), such as every_five_minutes().between_hours(9, 17)"
            )
        parse_expression(str(frequency))  # fields that are valid alone may never match together: 31 and February
        if timezone is not None:
            self.timezone(timezone)
        self._frequency = frequency
        return self._replace(cron=str(frequency))

    def _replace(self, **fields: str | None) -> Self:
        self._job = self._job.replace(**fields)  # type: ignore[arg-type]
        return self


def _flat(names: tuple[str | Iterable[str], ...]) -> tuple[str, ...]:
    """Names that were passed one by one, as lists, or both."""
    return tuple(name for each in names for name in ((each,) if isinstance(each, str) else each))
