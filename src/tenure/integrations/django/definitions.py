"""`@job` and `schedule` for the `jobs.py` modules of Django apps; they need no app object.

The key of a job is the path of its function, without a last module `jobs`: `send_receipt` in `shop/jobs.py` is
`shop.send_receipt`. So functions of two Django apps may have the same name. A function that moves keeps its waiting
jobs if it keeps its key: `@job(name="shop.send_receipt")`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from tenure.definition.callables import check_function
from tenure.definition.context import Context
from tenure.definition.handler import HandlerOptions
from tenure.definition.job import Job
from tenure.definition.job_function import JobFunction
from tenure.integrations.django.current_app import app_without_jobs

if TYPE_CHECKING:
    from tenure.cron.builder import ScheduleBuilder

P = ParamSpec("P")
R = TypeVar("R")
_JOBS_MODULE = "jobs"


class JobDecorator:
    """What `job(...)` with options returns."""

    def __init__(self, options: HandlerOptions) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> JobFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...

    def __call__(self, function: Any, /) -> Any:
        check_function(function, has_key=bool(self._options.get("name")))
        options: HandlerOptions = {"name": key_of(function), **self._options}
        return app_without_jobs().job(**options)(function)


@overload
def job(function: Callable[Concatenate[Context, P], R], /) -> JobFunction[P, R]: ...


@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...


@overload
def job(function: None = None, /, **options: Unpack[HandlerOptions]) -> JobDecorator: ...


def job(function: Any = None, /, **options: Unpack[HandlerOptions]) -> Any:
    """Make a function a job: `@job` or `@job(queue="emails", max_retries=3)`; `name` is its key."""
    decorator = JobDecorator(options)
    return decorator if function is None else decorator(function)


@overload
def schedule(job: JobFunction[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "ScheduleBuilder": ...


@overload
def schedule(job: Job | str, /, payload: Any = None) -> "ScheduleBuilder": ...


def schedule(job: Any, /, *args: Any, **kwargs: Any) -> "ScheduleBuilder":
    """Run a job by schedule: `schedule(clean_carts).daily_at("02:00")`."""
    return app_without_jobs().schedule(job, *args, **kwargs)


def key_of(function: Any) -> str:
    """The key of a job function, from where it is defined."""
    path = str(function.__module__).split(".")
    if path[-1] == _JOBS_MODULE:
        path.pop()
    return ".".join([*path, function.__name__])
