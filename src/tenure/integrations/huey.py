"""Huey: keep tasks that are enqueued by calling them while they become jobs.

Huey itself is not imported, and its queue is pickled, so nothing reads it here. What has no counterpart raises
NotSupported, which says what to write instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from tenure.app.tenure import Tenure
from tenure.definition.handler import HandlerOptions
from tenure.definition.job import JobOptions
from tenure.definition.job_function import JobFunction
from tenure.definition.job_handle import JobHandle
from tenure.definition.retry import Backoff
from tenure.errors import NotSupported, ResultTimeout

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_PRIORITY = 0  # as in Huey, where a higher number runs sooner
_YEAR = 365 * 86_400.0
_METHODS = {
    "error_handler": "use task.job.using(on_failure=...)",
    "map": "use app.enqueue_many([task.job.build(...), ...])",
    "revoke": "cancel each job by its handle, or tenure queues pause",
    "s": "use task.job.build(...)",
    "then": "use task.job.using(then=...)",
}
_APP_METHODS = {
    "context_task": "use app.provide(...)",
    "enqueue": "call the task",
    "immediate": "use app.override(eager=True)",
    "lock_task": "use app.job(single_instance=True)",
    "on_startup": "use a queue class with setup()",
    "post_execute": "use app.middleware(...)",
    "pre_execute": "use app.middleware(...)",
    "rate_limit": "use app.job(rate=...)",
    "signal": "use app.listen(...)",
}


@dataclass(frozen=True, slots=True)
class crontab:  # noqa: N801 - Huey's name
    """The times of a periodic task, with the names and defaults of Huey's `crontab`."""

    minute: str | int = "*"
    hour: str | int = "*"
    day: str | int = "*"
    month: str | int = "*"
    day_of_week: str | int = "*"

    def expression(self) -> str:
        day, weekday = str(self.day), str(self.day_of_week)
        if not (day.startswith("*") or weekday.startswith("*")):
            raise NotSupported(
                f"{self} restricts the day and the day of the week: Huey runs it when both match, and a cron "
                "expression when one matches; check the other day in the job"
            )
        return f"{self.minute} {self.hour} {day} {self.month} {weekday}"


class HueyResult(Generic[R]):
    """What a call returns. `job` is the handle of Tenure, which can do more."""

    def __init__(self, job: JobHandle[R]) -> None:
        self.job = job
        self.id = job.id

    def __call__(self, blocking: bool = False, timeout: float | None = None) -> R | None:
        return self.get(blocking, timeout)

    def get(self, blocking: bool = False, timeout: float | None = None) -> R | None:
        """The result, or None as long as there is none; raises JobFailed, and ResultTimeout if it waited in vain.

        Reading a result does not delete it, as Huey does by default.
        """
        try:
            return self.job.result(timeout if blocking else 0)
        except ResultTimeout:
            if blocking:
                raise
            return None

    def revoke(self) -> None:
        """Cancel the job; unlike in Huey, a running job is interrupted too."""
        self.job.cancel()


class HueyTask(Generic[P, R]):
    """A task; calling it enqueues a job. `job` is the job function of Tenure behind it."""

    def __init__(self, job: JobFunction[P, R], app: Tenure) -> None:
        update_wrapper(self, job.original)
        self.job = job
        self.func = job.original
        self._app = app

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> HueyResult[R]:
        """Enqueue one job with these arguments."""
        return HueyResult(self._app.enqueue(self.job.build(*args, **kwargs)))

    def call_local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self.job(*args, **kwargs)

    def schedule(
        self,
        args: Sequence[Any] | float | timedelta | datetime | None = None,
        kwargs: Mapping[str, Any] | None = None,
        eta: datetime | None = None,
        delay: float | timedelta | None = None,
        **options: Any,
    ) -> HueyResult[R]:
        """Enqueue a job for later; an `eta` needs a time zone."""
        if eta is None and delay is None:
            if isinstance(args, datetime):
                args, eta = None, args
            elif isinstance(args, (int, float, timedelta)):
                args, delay = None, args
            else:
                raise NotSupported("schedule() needs eta= or delay=")
        found: JobOptions = dict(_options("schedule", options))  # type: ignore[assignment]
        found.update({"at": eta} if eta is not None else {"delay": delay or 0})
        given: Any = args or ()
        return HueyResult(self._app.enqueue(self.job.using(**found).build(*given, **(kwargs or {}))))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_METHODS[name]}" if name in _METHODS else ""
            raise AttributeError(f"'HueyTask' object has no attribute {name!r}{hint}")


class HueyDecorator(Protocol):
    """Makes a function a task."""

    def __call__(self, function: Callable[P, R], /) -> HueyTask[P, R]: ...


class HueyApp:
    """Its tasks become jobs of `app` under the names of their functions."""

    def __init__(self, app: Tenure) -> None:
        self.app = app

    def task(self, **options: Any) -> HueyDecorator:
        """Make a function a task: `@huey.task()`, or `@huey.task(retries=3, retry_delay=10)`."""

        def decorate(function: Callable[P, R]) -> HueyTask[P, R]:
            given = {"priority": DEFAULT_PRIORITY, **options}
            name = given.pop("name", None) or function.__name__
            found: HandlerOptions = {"name": name, **_options(f"the task {name!r}", given)}
            return HueyTask(self.app.job(**found)(function), self.app)

        return decorate

    def periodic_task(self, schedule: crontab, **options: Any) -> HueyDecorator:
        """Make a function a task, and schedule it; run it with `tenure work --with-cron`."""
        make, expression = self.task(**options), schedule.expression()

        def decorate(function: Callable[P, R]) -> HueyTask[P, R]:
            task = make(function)
            self.app.schedule(task.job.key, {}).cron(expression)
            return task

        return decorate

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_APP_METHODS[name]}" if name in _APP_METHODS else ""
            raise AttributeError(f"'HueyApp' object has no attribute {name!r}{hint}")


def _options(where: str, given: Mapping[str, Any]) -> HandlerOptions:
    """Options of Huey as options of Tenure."""
    options, left = HandlerOptions(), {name: value for name, value in given.items() if value is not None}
    if "retries" in left:
        options["max_retries"] = left.pop("retries")
    delay, factor = left.pop("retry_delay", None), left.pop("retry_backoff", 0)
    if delay is not None or "max_retries" in options:
        options["backoff"] = _backoff(float(delay or 0), float(factor))
    if "priority" in left:
        options["priority"] = left.pop("priority")
    if (expires := left.pop("expires", None)) is not None:
        options["expires_at"] = f"in {expires:.6f} s" if isinstance(expires, (int, float)) else expires
    if "timeout" in left:
        options["timeout"] = left.pop("timeout")
    for name, value in left.items():
        raise NotSupported(f"{where} does not support {name}={value!r:.60}; see the migration guide for Huey")
    return options


def _backoff(delay: float, factor: float) -> Backoff:
    if factor > 1:
        return Backoff(base=delay, multiplier=factor, cap=_YEAR, jitter=0)
    return Backoff(strategy="fixed", base=delay)
