"""What users pass where a job is needed; an error for anything else shows what to write.

Most wrong guesses come from other libraries, so their names are known here too.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tenure.definition.builder import JobBuilder
from tenure.definition.callables import name_of
from tenure.definition.job import Job
from tenure.definition.job_function import JobFunction, Using
from tenure.definition.queues import Queue, QueueClass
from tenure.errors import NotAJob

T = TypeVar("T")

_APP_NAMES = {
    "task": "decorate the function with @app.job",
    "actor": "decorate the function with @app.job",
    "periodic_task": 'use app.schedule(fn).every("10m")',
    "add_job": 'use app.schedule(fn).every("10m"), or fn.using(at=...).enqueue(...)',
    "add_periodic_task": 'use app.schedule(fn).every("10m")',
    "send_task": 'use app.define("key", payload).dispatch()',
    "delay": "use fn.using(delay=...).enqueue(...)",
    "enqueue_at": "use fn.using(at=...).enqueue(...)",
    "enqueue_in": "use fn.using(delay=...).enqueue(...)",
    "run": "use app.worker().run(), or the command tenure work",
    "start": "use app.worker().run(), or the command tenure work",
    "run_worker": "use app.worker().run(), or the command tenure work",
    "worker_main": "use app.worker().run(), or the command tenure work",
    "conf": "use app.settings",
    "config": "use app.settings",
}


def check_job(given: Any, where: str) -> Job:
    """The job; anything else is refused with a message that shows what to write. `where` names the method."""
    if isinstance(given, Job):
        return given
    raise NotAJob(f"{where} takes a job, got {_shown(given)}; {_advice(given, where)}")


def check_jobs(given: Iterable[Any], where: str) -> None:
    """Refuse the first of these that is not a job."""
    for each in given:
        check_job(each, where)


def check_iterable(given: Iterable[T], where: str) -> Iterable[T]:
    if isinstance(given, (Job, JobBuilder, JobFunction, Using, str)) or not isinstance(given, Iterable):
        raise NotAJob(
            f"{where} takes many jobs, got {_shown(given)}; write {where}([fn.build(...), ...]) for several calls of "
            "a function"
        )
    return given


def job_to_schedule(
    given: Any, args: tuple[Any, ...], kwargs: dict[str, Any], define: Callable[..., JobBuilder]
) -> Job:
    """The job of `app.schedule(given, *args, **kwargs)`: a function with arguments, a key with a payload, or a job."""
    if isinstance(given, JobFunction):
        return given.build(*args, **kwargs)
    if isinstance(given, str):
        return define(given, *args, **kwargs).build()
    job = check_job(given, "app.schedule")
    if args or kwargs:
        raise NotAJob(f"app.schedule takes no arguments beside the job {job.handler!r}, which has its payload already")
    return job


def check_handler_key(given: Any) -> str:
    """The key of a handler as text; anything else is refused with a message that shows what to write."""
    if isinstance(given, str):
        return given
    raise NotAJob(f"app.define takes the key of a handler as text, got {_shown(given)}; {_advice(given, 'app.define')}")


def check_queue(given: Any) -> Queue:
    """A queue that a worker can serve; anything else is refused with a message that shows what to write."""
    if isinstance(given, (str, QueueClass)):
        return given
    raise NotAJob(
        f"app.worker takes the names of queues, got {_shown(given)}; a worker runs every handler of its queues: "
        'write app.worker("emails"), or app.worker() for those of the settings'
    )


def missing_app_name(name: str) -> AttributeError:
    """The error for an attribute that an app does not have; for a name of another library, with what to write."""
    hint = f"; {_APP_NAMES[name]}" if name in _APP_NAMES else ""
    return AttributeError(f"'Tenure' object has no attribute {name!r}{hint}")


def _shown(given: Any) -> str:
    if isinstance(given, JobFunction):
        return f"the job function {given.key!r}"
    if inspect.isroutine(given) or inspect.isclass(given):
        return f"the {'class' if inspect.isclass(given) else 'function'} {given.__qualname__!r}"
    return f"{given!r:.80}"


def _advice(given: Any, where: str) -> str:
    if isinstance(given, JobFunction):
        return f"write {name_of(given.original)}.build(...) with its arguments"
    if isinstance(given, Using):
        return "call enqueue(...) on it, or pass what its build(...) returns"
    if isinstance(given, JobBuilder):
        return "call dispatch() on it, or pass what its build() returns"
    if inspect.iscoroutine(given):
        given.close()
        return "pass the job function itself, without calling it"
    if isinstance(given, str):
        return f"write app.define({given!r:.80}, payload).dispatch() for the handler of this key"
    if inspect.isclass(given):
        return f'write app.register("key", {given.__name__}), then {where}(app.define("key", payload).build())'
    if callable(given):
        return _advice_to_decorate(given)
    return "write fn.build(...) of a function with @app.job"


def _advice_to_decorate(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "fn")
    if name == "<lambda>":
        return "write a function with def, and decorate it with @app.job"
    return f"decorate it with @app.job, then write {name}.enqueue(...) or {name}.build(...)"
