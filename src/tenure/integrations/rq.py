"""RQ: keep `queue.enqueue(function, ...)` while functions become jobs.

RQ itself is not imported, and its jobs in Redis are pickled, so nothing reads them here. What has no counterpart
raises NotSupported, which says what to write instead.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tenure.app.tenure import Tenure
from tenure.definition.duration import Duration
from tenure.definition.job import JobOptions
from tenure.definition.job_function import JobFunction
from tenure.definition.job_handle import JobHandle
from tenure.definition.retry import Backoff
from tenure.errors import JobNotFound, NotSupported, ResultTimeout

R = TypeVar("R")

DEFAULT_TIMEOUT = 180  # seconds, as in RQ
_STATUS = {
    "ready": "queued",
    "delayed": "scheduled",
    "parked": "deferred",
    "leased": "started",
    "done": "finished",
    "dead": "failed",
    "cancelled": "canceled",
    "expired": "canceled",
}
_INSTEAD = {  # options of RQ without a counterpart, with what to write
    "at_front": "use function.using(priority=9).enqueue(...)",
    "depends_on": "use function.using(then=...) or chain=[...] of the job before",
    "failure_ttl": "set the retention of dead letters",
    "on_failure": "use function.using(on_failure=job)",
    "on_stopped": "use function.using(finally_=job)",
    "on_success": "use function.using(then=job)",
    "pipeline": "use app.enqueue_many([...])",
    "repeat": "use app.schedule(...)",
    "result_ttl": "set the retention of jobs that are done",
    "unique": "use function.using(unique=...)",
    "webhooks": "use notifications, or then= with a url job",
}
_METHODS = {
    "count": "use app.jobs.count(...)",
    "empty": "use the command tenure purge",
    "enqueue_many": "use app.enqueue_many([function.build(...), ...])",
    "fetch_job": "use RqJob(app.handle(id))",
    "jobs": "use app.jobs.find(...)",
    "prepare_data": "use function.build(...)",
}


@dataclass(frozen=True, slots=True)
class RqRetry:
    """RQ's `Retry`: how often, and how many seconds between."""

    max: int
    interval: int | Iterable[int] = 0

    def backoff(self) -> Backoff:
        """A list of intervals has no counterpart for a single job, unless they are all the same."""
        intervals = {self.interval} if isinstance(self.interval, (int, float)) else set(self.interval)
        if len(intervals) != 1:
            raise NotSupported(
                f"Retry(interval={self.interval!r}) has different intervals; use an exponential backoff: "
                "function.using(max_retries=..., backoff=Backoff(base=..., multiplier=...)), or a retry policy"
            )
        return Backoff(strategy="fixed", base=float(intervals.pop()))


class RqJob(Generic[R]):
    """What `enqueue` returns; each member asks the backend again. `job` is the handle of Tenure."""

    def __init__(self, job: JobHandle[R]) -> None:
        self.job = job
        self.id = job.id

    def get_id(self) -> str:
        return self.id

    def get_status(self, refresh: bool = True) -> str | None:  # noqa: ARG002 - it is always refreshed
        try:
            return _STATUS[self.job.state]
        except JobNotFound:
            return None

    def return_value(self, refresh: bool = True) -> R | None:  # noqa: ARG002 - it is always refreshed
        """What the function returned, or None if the job has not succeeded."""
        try:
            return self.job.result(0) if self.get_status() == "finished" else None
        except ResultTimeout:  # it was replayed meanwhile
            return None

    @property
    def is_finished(self) -> bool:
        return self.get_status() == "finished"

    @property
    def is_failed(self) -> bool:
        return self.get_status() == "failed"

    def cancel(self) -> None:
        """Cancel the job; unlike in RQ, a running job is interrupted too."""
        self.job.cancel()


class RqQueue:
    """A queue of an app; its functions are those that `@app.job` has made jobs."""

    def __init__(self, app: Tenure, name: str = "default", default_timeout: Duration = DEFAULT_TIMEOUT) -> None:
        self.app = app
        self.name = name
        self._default_timeout = default_timeout

    def enqueue(self, function: Callable[..., R], *args: Any, **kwargs: Any) -> RqJob[R]:
        """Enqueue a call; RQ's own options are taken out of `kwargs`, as RQ does."""
        return self._enqueue({}, function, args, kwargs)

    def enqueue_in(self, delay: timedelta, function: Callable[..., R], *args: Any, **kwargs: Any) -> RqJob[R]:
        return self._enqueue({"delay": delay}, function, args, kwargs)

    def enqueue_at(self, moment: datetime, function: Callable[..., R], *args: Any, **kwargs: Any) -> RqJob[R]:
        """The moment needs a time zone; RQ takes a moment without one as local time."""
        return self._enqueue({"at": moment}, function, args, kwargs)

    def _enqueue(
        self, when: JobOptions, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RqJob[R]:
        if not isinstance(function, JobFunction):
            raise NotSupported(f"{function!r:.80} is no job; decorate the function with @app.job, and pass it itself")
        id = kwargs.pop("job_id", None)
        options: JobOptions = {"queue": self.name, **when, **self._options(kwargs)}
        if "args" in kwargs or "kwargs" in kwargs:  # RQ's explicit form
            args, kwargs = tuple(kwargs.pop("args", None) or ()), dict(kwargs.pop("kwargs", None) or {})
        job = function.using(**options).build(*args, **kwargs)
        return RqJob(self.app.enqueue(job if id is None else job.replace(id=id)))

    def _options(self, kwargs: dict[str, Any]) -> JobOptions:
        """Take RQ's options out of the arguments."""
        options: JobOptions = {}
        timeout = kwargs.pop("job_timeout", None) or self._default_timeout
        if timeout != -1:  # -1 means no limit
            options["timeout"] = timeout
        if (ttl := kwargs.pop("ttl", None)) is not None:
            options["expires_at"] = f"in {ttl} s"
        if (retry := kwargs.pop("retry", None)) is not None:
            options["max_retries"], options["backoff"] = retry.max, retry.backoff()
        meta: Mapping[str, Any] = kwargs.pop("meta", None) or {}
        if (description := kwargs.pop("description", None)) is not None:
            meta = {**meta, "description": description}
        if meta:
            options["meta"] = dict(meta)
        for name in sorted(_INSTEAD.keys() & kwargs.keys()):
            if (value := kwargs.pop(name)) not in (None, False):
                raise NotSupported(f"RqQueue.enqueue does not support {name}={value!r:.60}; {_INSTEAD[name]}")
        return options

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_METHODS[name]}" if name in _METHODS else ""
            raise AttributeError(f"'RqQueue' object has no attribute {name!r}{hint}")
