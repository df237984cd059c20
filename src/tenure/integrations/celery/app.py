"""CeleryApp: an app of Tenure with the decorators and methods of Celery's app that tasks and call sites use."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from tenure.app.tenure import Tenure
from tenure.definition.handler import HandlerOptions
from tenure.errors import NotSupported, UnknownHandler
from tenure.integrations.celery.beat import BeatEntry, add_entry
from tenure.integrations.celery.options import HighestPriority
from tenure.integrations.celery.result import AsyncResult
from tenure.integrations.celery.task import CeleryTask
from tenure.suggestions import nearest

P = ParamSpec("P")
R = TypeVar("R")

_INSTEAD = {  # attributes of Celery's app, with what to write
    "add_periodic_task": "use beat_schedule({...}), or app.schedule(task.job).every(...)",
    "amqp": "use the app of Tenure",
    "autodiscover_tasks": "use include(...)",
    "backend": "use app.handle(id)",
    "conf": "use the settings of Tenure, and beat_schedule({...}) for schedules",
    "config_from_object": "use the settings of Tenure",
    "connection": "leave it out; the app connects by itself",
    "control": "use app.cancel(id), or the command tenure",
    "events": "use app.listen(...)",
    "on_after_configure": "call beat_schedule({...}) after the tasks are defined",
    "register_task": "use the decorator task, or app.register(key, cls) for a handler class",
    "set_default": "leave it out; there is no default app",
    "signature": "use s(...) or si(...) of the task",
    "start": "use the command tenure work",
    "Task": "use app.middleware(...), or a handler class",
    "worker_main": "use app.worker().run(), or the command tenure work",
}


class TaskDecorator(Protocol):
    """Makes a function a task."""

    def __call__(self, function: Callable[P, R], /) -> CeleryTask[P, R]: ...


class BoundTaskDecorator(Protocol):
    """Makes a function a task; its first parameter, `self`, is the task."""

    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> CeleryTask[P, R]: ...


class CeleryApp:
    """Its tasks become jobs of `app` under the names that Celery gives them."""

    def __init__(self, app: Tenure, *, highest_priority: HighestPriority | None = None, **defaults: Any) -> None:
        """`highest_priority` is the number that ran first: 0 for Celery on Redis, 9 on RabbitMQ.

        `defaults` are options of Tenure for all tasks, such as `queue="emails"`.
        """
        self.app = app
        self.tasks: dict[str, CeleryTask[..., Any]] = {}
        self._highest: HighestPriority | None = highest_priority
        self._defaults: HandlerOptions = defaults  # type: ignore[assignment]

    @overload
    def task(self, function: Callable[P, R], /) -> CeleryTask[P, R]: ...

    @overload
    def task(self, function: None = None, /, *, bind: Literal[True], **options: Any) -> BoundTaskDecorator: ...

    @overload
    def task(self, function: None = None, /, **options: Any) -> TaskDecorator: ...

    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Make a function a task: `@celery.task`, or `@celery.task(bind=True, max_retries=5)`."""

        def decorate(function: Callable[..., Any]) -> CeleryTask[..., Any]:
            return self._add(CeleryTask(function, options))

        return decorate if function is None else decorate(function)

    def include(self, *modules: str) -> None:
        """Import modules, and register the tasks that they define with `@shared_task`."""
        for module in modules:
            for value in list(vars(import_module(module)).values()):
                if isinstance(value, CeleryTask) and value.name not in self.tasks:
                    self._add(value)

    def send_task(
        self, name: str, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult[Any]:
        """Enqueue a task by its name, which this process must have registered, because its arguments are checked."""
        return self.find(name).apply_async(args, kwargs, **options)

    def find(self, name: str) -> CeleryTask[..., Any]:
        if name not in self.tasks:
            guess = nearest(name, self.tasks)
            raise UnknownHandler(
                f"no task is called {name!r}; " + (f"did you mean {guess!r}?" if guess else "import its module first")
            )
        return self.tasks[name]

    def AsyncResult(self, id: str) -> AsyncResult[Any]:  # noqa: N802 - Celery's name
        """The result of a job by its id."""
        return AsyncResult(self.app.handle(id))

    def beat_schedule(self, entries: Mapping[str, BeatEntry], timezone: str | None = None) -> None:
        """Schedule the entries of Celery's setting `beat_schedule`; `timezone` is Celery's setting of that name.

        Call it after the tasks are defined. Run the schedules with `tenure work --with-cron`.
        """
        for name, entry in entries.items():
            add_entry(self.app, name, self.find(entry["task"]), entry, timezone)

    def _add(self, task: CeleryTask[P, R]) -> CeleryTask[P, R]:
        task.register(self.app, self._highest, self._defaults)
        self.tasks[task.name] = task
        return task

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(f"'CeleryApp' object has no attribute {name!r}{hint}")


@overload
def shared_task(function: Callable[P, R], /) -> CeleryTask[P, R]: ...


@overload
def shared_task(function: None = None, /, *, bind: Literal[True], **options: Any) -> BoundTaskDecorator: ...


@overload
def shared_task(function: None = None, /, **options: Any) -> TaskDecorator: ...


def shared_task(function: Any = None, /, **options: Any) -> Any:
    """Make a function a task without an app; `CeleryApp.include` of its module registers it."""

    def decorate(function: Callable[..., Any]) -> CeleryTask[..., Any]:
        if isinstance(function, CeleryTask):
            raise NotSupported(f"{function.name!r} is a task already")
        return CeleryTask(function, options)

    return decorate if function is None else decorate(function)
