"""JobFunction: what `@app.job` makes of a function; it can be called, and enqueued with typed arguments."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from msgspec import structs

from tenure.definition.context import Context, entered, running_context
from tenure.definition.handler import Handler
from tenure.definition.job import Job, JobOptions, new_id
from tenure.definition.job_handle import JobHandle
from tenure.definition.provided import Providers
from tenure.errors import InvalidHandler, InvalidJob

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Enqueue = Callable[..., JobHandle[Any]]
AsyncEnqueue = Callable[..., Awaitable[JobHandle[Any]]]
_OTHER_NAMES = {  # what other libraries call the methods of a job function
    **dict.fromkeys(("delay", "send", "defer", "kiq", "submit", "perform_async", "push"), "enqueue(...)"),
    **dict.fromkeys(("apply_async", "send_with_options", "schedule"), "using(delay=...).enqueue(...)"),
    **dict.fromkeys(("s", "si", "signature", "subtask", "message"), "build(...)"),
    **dict.fromkeys(("apply", "call_local", "fn", "func"), "call(...)"),
}


class JobFunction(Generic[P, R_co]):
    """A call runs the function here and now; `enqueue` sends it to a worker. `original` is the function itself.

    `R_co` is what a call returns: for an `async def` function a coroutine, whose result is the result of the job.
    """

    def __init__(
        self,
        function: Callable[..., R_co],
        handler: Handler,
        enqueue: Enqueue,
        aenqueue: AsyncEnqueue,
        providers: Providers,
    ) -> None:
        update_wrapper(self, function)
        self.key = handler.key
        self.original = function
        self._context_parameter = handler.context_parameter
        self._is_async = handler.is_async
        self._enqueue = enqueue
        self._provided = handler.provided
        self._providers = providers
        self._default: Using[P, R_co] = Using(handler, Job(handler=handler.key, **handler.defaults), enqueue, aenqueue)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here; one that takes a Context gets that of the running job, or one as `call` makes it."""
        if not self._provided and (self._context_parameter is None or self._has_context(args, kwargs)):
            return self.original(*args, **kwargs)
        if self._has_context(args, kwargs):
            given: Any = kwargs.get(self._context_parameter or "") or args[0]
            return self._call(given, args, kwargs)
        context = running_context() or self._new_context(args, kwargs)
        leading = () if self._context_parameter is None else (context,)
        return self._call(context, (*leading, *args), kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function as a job would, with a new context: for tests. An async function returns its coroutine."""
        return self.call_with(self._new_context(args, kwargs), *args, **kwargs)

    def call_with(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function with this context, which `current_context()` returns too: for tests."""
        leading = () if self._context_parameter is None else (context,)
        if self._is_async:
            coroutine: Any = _awaited_in(context, self._call, (context, (*leading, *args), kwargs), {})
            return coroutine  # type: ignore[no-any-return]
        with entered(context):
            return self._call(context, (*leading, *args), kwargs)

    def _call(self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        """Call the function; arguments that the app provides are opened and closed, unless they are given."""
        missing = self._missing(args, kwargs)
        if not missing:
            return self.original(*args, **kwargs)
        call = self._providers.acall if self._is_async else self._providers.call
        result: R_co = call(self.original, missing, context, *args, **kwargs)  # type: ignore[assignment]
        return result

    def _missing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The types of what the app must provide to a call, by name."""
        if not self._provided:
            return {}
        given = inspect.signature(self.original).bind_partial(*args, **kwargs).arguments
        return {name: declared for name, declared in self._provided.items() if name not in given}

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; use {self.__name__}.{_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
            raise AttributeError(f"'JobFunction' object has no attribute {name!r}{hint}")

    def _has_context(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return self._context_parameter in kwargs or (bool(args) and isinstance(args[0], Context))

    def _new_context(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Context:
        if self._provided:  # values for a test, which are no part of the payload
            places = [
                each.name
                for each in inspect.signature(self.original).parameters.values()
                if each.kind is not each.KEYWORD_ONLY
            ]
            own = [each for each in places if each not in self._provided and each != self._context_parameter]
            args, kwargs = args[: len(own)], {key: kwargs[key] for key in kwargs if key not in self._provided}
        job = self._default.job_for(args, kwargs)
        return Context(
            id=new_id(),
            handler=job.handler,
            payload=job.payload,
            queue=job.queue,
            name=job.name,
            max_retries=job.max_retries,
            meta=job.meta,
        )

    @overload
    def enqueue(self: "JobFunction[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]: ...

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """Put one job on its queue; returns its handle, which is its id."""
        return self._enqueue(self._default.job_for(args, kwargs))

    @overload
    async def aenqueue(
        self: "JobFunction[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle[T]: ...

    @overload
    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]: ...

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """As `enqueue`, without blocking the event loop; calls that are made at once are stored together."""
        handle: JobHandle[Any] = await self._default.aenqueue(*args, **kwargs)
        return handle

    def build(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """The job that `enqueue` would send, not yet sent."""
        return self._default.job_for(args, kwargs)

    def using(self, *, connection: Any = None, wake: bool = False, **options: Unpack[JobOptions]) -> "Using[P, R_co]":
        """The same function with other options: `send.using(delay="10m").enqueue(...)`.

        With a `connection` to the jobs' database, `enqueue` joins its transaction; `wake` wakes workers at the commit.
        """
        return self._default.using(connection=connection, wake=wake, **options)


async def _awaited_in(
    context: Context, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    with entered(context):
        return await function(*args, **kwargs)


class Using(Generic[P, R_co]):
    """A function together with the options that its jobs get."""

    def __init__(
        self,
        handler: Handler,
        template: Job,
        enqueue: Enqueue,
        aenqueue: AsyncEnqueue,
        enqueue_options: dict[str, Any] | None = None,
    ) -> None:
        """`enqueue` and `aenqueue` are called with a job and the `enqueue_options`."""
        if handler.bind is None:
            raise InvalidHandler(
                f"handler {handler.key!r} is not a function; define({handler.key!r}, payload) enqueues it"
            )
        self._handler = handler
        self._template = template
        self._enqueue = enqueue
        self._aenqueue = aenqueue
        self._enqueue_options = enqueue_options or {}
        self._bind = handler.bind

    @overload
    def enqueue(self: "Using[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]: ...

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """Put one job on its queue; returns its handle, which is its id."""
        return self._enqueue(self.job_for(args, kwargs), **self._enqueue_options)

    @overload
    async def aenqueue(self: "Using[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...

    @overload
    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]: ...

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """As `enqueue`, without blocking the event loop; calls that are made at once are stored together."""
        return await self._aenqueue(self.job_for(args, kwargs), **self._enqueue_options)

    def build(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """The job that `enqueue` would send, not yet sent. A job cannot hold a connection, so one is refused here."""
        if self._enqueue_options:
            raise InvalidJob(
                f"a job of {self._handler.key!r} cannot hold the connection that using() was given; call enqueue() "
                "here, or build the job without it and call app.enqueue(job, connection=...)"
            )
        return self.job_for(args, kwargs)

    def job_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job:
        """The job for these arguments. The template was checked when it was made; a new Job is checked in 3 µs."""
        job: Job = self._template.__copy__()  # type: ignore[attr-defined]
        structs.force_setattr(job, "payload", self._bind(args, kwargs))
        return job

    def using(self, *, connection: Any = None, wake: bool = False, **options: Unpack[JobOptions]) -> "Using[P, R_co]":
        """The same function with other options: `send.using(delay="10m").enqueue(...)`.

        With a `connection` to the jobs' database, `enqueue` joins its transaction; `wake` wakes workers at the commit.
        """
        joined = {"connection": connection, "wake": wake} if connection is not None else self._enqueue_options
        return Using(self._handler, self._template.replace(**options), self._enqueue, self._aenqueue, joined)
