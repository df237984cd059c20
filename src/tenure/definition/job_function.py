"""JobFunction: what `@app.job` makes of a function; it can be called, and enqueued with typed arguments."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from msgspec import structs

from tenure.definition.handler import Handler
from tenure.definition.job import Job, JobOptions
from tenure.definition.job_handle import JobHandle
from tenure.errors import InvalidHandler, InvalidJob

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Enqueue = Callable[..., JobHandle[Any]]


class JobFunction(Generic[P, R_co]):
    """A call runs the function here and now; `enqueue` sends it to a worker.

    `R_co` is what a call returns: for an `async def` function a coroutine, whose result is the result of the job.
    """

    def __init__(self, function: Callable[..., Any], handler: Handler, enqueue: Enqueue) -> None:
        update_wrapper(self, function)
        self.key = handler.key
        self._function = function
        self._enqueue = enqueue
        self._default: Using[P, R_co] = Using(handler, Job(handler=handler.key, **handler.defaults), enqueue)

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        result: R_co = self._function(*args, **kwargs)
        return result

    @overload
    def enqueue(self: "JobFunction[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]: ...

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """Put one job on its queue; returns its handle, which is its id."""
        return self._enqueue(self._default.job_for(args, kwargs))

    def build(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """The job that `enqueue` would send, not yet sent."""
        return self._default.job_for(args, kwargs)

    def using(self, *, connection: Any = None, wake: bool = False, **options: Unpack[JobOptions]) -> "Using[P, R_co]":
        """The same function with other options: `send.using(delay="10m").enqueue(...)`.

        With a `connection` to the jobs' database, `enqueue` joins its transaction; `wake` wakes workers at the commit.
        """
        return self._default.using(connection=connection, wake=wake, **options)


class Using(Generic[P, R_co]):
    """A function together with the options that its jobs get."""

    def __init__(
        self, handler: Handler, template: Job, enqueue: Enqueue, enqueue_options: dict[str, Any] | None = None
    ) -> None:
        """`enqueue` is called with a job and the `enqueue_options`."""
        if handler.bind is None:
            raise InvalidHandler(
                f"handler {handler.key!r} is not a function; define({handler.key!r}, payload) enqueues it"
            )
        self._handler = handler
        self._template = template
        self._enqueue = enqueue
        self._enqueue_options = enqueue_options or {}
        self._bind = handler.bind

    @overload
    def enqueue(self: "Using[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]: ...

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[Any]:
        """Put one job on its queue; returns its handle, which is its id."""
        return self._enqueue(self.job_for(args, kwargs), **self._enqueue_options)

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
        return Using(self._handler, self._template.replace(**options), self._enqueue, joined)
