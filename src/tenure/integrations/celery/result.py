"""AsyncResult: the handle of a job with the methods of Celery's AsyncResult."""

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from tenure.definition.job_handle import JobHandle
from tenure.definition.job_info import JobInfo
from tenure.errors import JobFailed, JobNotFound, NotSupported

R = TypeVar("R")

CeleryState = Literal["PENDING", "STARTED", "RETRY", "SUCCESS", "FAILURE", "REVOKED"]
_STATES: dict[str, CeleryState] = {
    "leased": "STARTED",
    "done": "SUCCESS",
    "dead": "FAILURE",
    "cancelled": "REVOKED",
    "expired": "REVOKED",
}
_ENDED = ("SUCCESS", "FAILURE", "REVOKED")
_INSTEAD = {
    "children": "use app.jobs, and the meta of the jobs",
    "collect": "wait for each handle",
    "date_done": "use job.info().finished_at",
    "forget": "set the retention, after which Tenure deletes results by itself",
    "iterdeps": "wait for each handle",
    "then": "use link=, or await job.aresult()",
    "wait": "use get(timeout=...)",
}


class AsyncResult(Generic[R]):
    """Each member asks the backend again. `job` is the handle of Tenure, which can do more."""

    def __init__(self, job: JobHandle[R], parent: "AsyncResult[Any] | None" = None) -> None:
        """`parent` is the result of the task before, in a chain."""
        self.job = job
        self.parent = parent

    @property
    def id(self) -> str:
        return self.job.id

    task_id = id

    @property
    def state(self) -> CeleryState:
        """The state as Celery names it; a job that the backend does not know is PENDING, as in Celery."""
        info = self._info()
        if info is None:
            return "PENDING"
        return _STATES.get(info.state, "RETRY" if info.attempts else "PENDING")

    @property
    def status(self) -> CeleryState:
        return self.state

    def ready(self) -> bool:
        return self.state in _ENDED

    def successful(self) -> bool:
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        return self.state == "FAILURE"

    def get(self, timeout: float | None = None, propagate: bool = True, **options: Any) -> R:
        """Wait for the result; the errors are JobFailed, with the type and text of the error, and ResultTimeout."""
        for name in options:
            raise NotSupported(f"AsyncResult.get does not support {name}; it waits without polling")
        try:
            if self.parent is not None:
                self.parent.get(timeout)
            return self.job.result(timeout)
        except JobFailed as error:
            if propagate:
                raise
            return error  # type: ignore[return-value]

    @property
    def result(self) -> Any:
        """What the task returned, the error with which it failed, or None as long as it has not ended."""
        return self.get(0, propagate=False) if self.ready() else None

    @property
    def traceback(self) -> str | None:
        info = self._info()
        return info.failures[-1].traceback if info and info.failures else None

    @property
    def retries(self) -> int:
        info = self._info()
        return info.attempts if info else 0

    def revoke(self, *, terminate: bool = False) -> None:
        """Cancel the job if it waits; with `terminate` also if it runs, by an exception inside it."""
        if terminate or self.state != "STARTED":
            self.job.cancel()

    def _info(self) -> JobInfo | None:
        try:
            return self.job.info()
        except JobNotFound:
            return None

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(f"'AsyncResult' object has no attribute {name!r}{hint}")
