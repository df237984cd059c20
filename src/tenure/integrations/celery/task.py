"""CeleryTask: a function as Celery's decorator makes it, whose calls of `delay` and `apply_async` enqueue jobs.

`task.job` is the job function of Tenure behind it, for new code: `task.job.using(delay="10m").enqueue(...)`.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import update_wrapper, wraps
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from msgspec import structs

from tenure.app.tenure import Tenure
from tenure.definition.callables import is_async
from tenure.definition.context import Context, running_context
from tenure.definition.handler import HandlerOptions
from tenure.definition.job import Job
from tenure.definition.job_function import JobFunction
from tenure.errors import NotSupported, Retry
from tenure.integrations.celery.options import CeleryOptions, HighestPriority, aware, job_options, refuse, task_options
from tenure.integrations.celery.result import AsyncResult
from tenure.integrations.celery.signature import Link, Signature, link_error_jobs, link_jobs

P = ParamSpec("P")
R = TypeVar("R")

_INSTEAD = {  # attributes of Celery's Task, with what to write
    "AsyncResult": "use AsyncResult of the CeleryApp",
    "apply": "call the task as a function, or enqueue inside app.override(eager=True)",
    "backend": "use app.handle(id)",
    "apply_async_on_commit": "use apply_async(...), which joins atomic() with the integration for Django",
    "chunks": "use app.enqueue_many([...])",
    "delay_on_commit": "use delay(...), which joins atomic() with the integration for Django",
    "map": "use app.enqueue_many([...])",
    "replace": "enqueue the other job, and return",
    "starmap": "use app.enqueue_many([...])",
    "subtask": "use s(...) or si(...)",
    "update_state": "use current_context().progress(done, total)",
}
_REQUEST = "id, task, retries, args, kwargs, headers, parent_id, delivery_info, correlation_id and called_directly"


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What `self.request` of a running task tells; the Context of Tenure knows more."""

    id: str | None = None
    task: str = ""
    retries: int = 0
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    parent_id: str | None = None
    delivery_info: Mapping[str, Any] = field(default_factory=dict)
    called_directly: bool = True

    @classmethod
    def of(cls, context: Context) -> "TaskRequest":
        """All arguments are in `kwargs`, by their names."""
        return cls(
            id=context.id,
            task=context.handler,
            retries=context.attempt - 1,
            kwargs=structs.asdict(context.payload),
            headers=context.meta,
            parent_id=context.meta.get("parent", {}).get("id"),
            delivery_info={"routing_key": context.queue},
            called_directly=False,
        )

    @property
    def correlation_id(self) -> str | None:
        return self.id

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(f"self.request has no {name!r}; it has {_REQUEST}; see current_context() for more")


class CeleryTask(Generic[P, R]):
    """Registered when a CeleryApp makes it or includes its module; calling it runs the function here and now."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        update_wrapper(self, function)
        self.name: str = options.get("name") or f"{function.__module__}.{function.__name__}"
        self.run = function
        self._given = {name: value for name, value in options.items() if name != "name"}
        self._app: Tenure | None = None
        self._job: JobFunction[..., Any] | None = None
        self._highest: HighestPriority | None = None
        self._options = CeleryOptions({}, {}, False, False, 0.0)

    def register(self, app: Tenure, highest: HighestPriority | None, defaults: HandlerOptions) -> None:
        """Make it a job of this app; `defaults` are options that the decorator may replace."""
        options = task_options(self.name, self._given, highest)
        self._app, self._highest, self._options = app, highest, options
        own: HandlerOptions = {**defaults, **options.handler}
        self._job = app.job(**own)(self._plain_function())

    @property
    def app(self) -> Tenure:
        if self._app is None:
            raise NotSupported(
                f"the task {self.name!r} belongs to no app yet; write CeleryApp(app).include({self.__module__!r})"
            )
        return self._app

    @property
    def job(self) -> JobFunction[P, R]:
        """The same task as a job function of Tenure."""
        return self.app and self._job  # type: ignore[return-value]

    @property
    def request(self) -> TaskRequest:
        """What is known about the running job; outside a job it is empty."""
        context = running_context()
        return TaskRequest(task=self.name) if context is None else TaskRequest.of(context)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.job(*args, **kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> AsyncResult[R]:
        """Enqueue one job with these arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        *,
        link: Link | None = None,
        link_error: Link | None = None,
        **options: Any,
    ) -> AsyncResult[R]:
        """Enqueue one job, with the options of Celery that the migration guide lists."""
        job = self.described(tuple(args or ()), dict(kwargs or {}), options)
        if link:
            job = job.replace(then=link_jobs(link))
        if link_error:
            job = job.replace(on_failure=link_error_jobs(link_error))
        return AsyncResult(self.app.enqueue(job.replace(id=task_id) if task_id else job))

    def described(self, args: tuple[Any, ...], kwargs: dict[str, Any], options: Mapping[str, Any]) -> Job:
        """The job for these arguments, not yet enqueued."""
        where = f"apply_async of {self.name!r}"
        found = job_options(where, {**self._options.call, **options}, self._highest)
        return self.job.using(**found).build(*args, **kwargs)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature that takes the result of the task before it as its first argument."""
        return Signature(self, args, kwargs, {}, immutable=False)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature that takes nothing from the task before it."""
        return Signature(self, args, kwargs, {}, immutable=True)

    def signature(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
    ) -> Signature:
        return Signature(self, tuple(args), dict(kwargs or {}), dict(options or {}), immutable=immutable)

    def retry(
        self,
        *,
        exc: BaseException | None = None,
        countdown: float | None = None,
        eta: datetime | None = None,
        **options: Any,
    ) -> NoReturn:
        """Run the job again later; when no retries are left, raise the error that it is retried for."""
        for name, value in options.items():
            if (name, value) != ("throw", True):
                raise refuse("self.retry", name, value)
        error, context = exc or sys.exc_info()[1], running_context()
        message = "the task asked for a retry" if error is None else f"{type(error).__name__}: {error}"
        if error is not None and (context is None or context.attempt > context.max_retries):
            raise error
        delay = self._options.retry_delay if countdown is None else countdown
        raise Retry(message, delay=aware(eta) if eta else max(0, delay)) from error

    def first_argument(self) -> inspect.Parameter | None:
        """The parameter that Celery fills with the result of the task before."""
        parameters = inspect.signature(self.job.original).parameters.values()
        return next(iter(parameters), None)

    def argument_names(self) -> list[str]:
        return list(inspect.signature(self.job.original).parameters)

    def _plain_function(self) -> Callable[..., Any]:
        """The function without `self`, and without a result if results are ignored."""
        function, options = self.run, self._options
        if not (options.bind or options.ignore_result):
            return function
        leading = (self,) if options.bind else ()

        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*leading, *args, **kwargs)
            return None if options.ignore_result else result

        async def acall(*args: Any, **kwargs: Any) -> Any:
            result = await function(*leading, *args, **kwargs)
            return None if options.ignore_result else result

        plain: Any = wraps(function)(acall if is_async(function) else call)
        signature = inspect.signature(function)
        kept = list(signature.parameters.values())[len(leading) :]
        plain.__signature__ = signature.replace(parameters=kept)
        hidden = set(signature.parameters) - {each.name for each in kept}
        hidden |= {"return"} if options.ignore_result else set()
        plain.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name not in hidden}
        return plain  # type: ignore[no-any-return]

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(f"'CeleryTask' object has no attribute {name!r}{hint}")
