"""What clients see of a job over HTTP: its status, its result, and the errors, as frozen values that become JSON.

A client sees no payload, no meta, no tags, no traceback and no worker.
"""

from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec

from tenure.definition.job_info import JobInfo
from tenure.errors import ResultCut
from tenure.events import END_STATES, CancelResult

RETRY_SECONDS = 1  # when a client may ask again for a result
_NO_STORE = {"cache-control": "no-store"}
_CANCEL_STATUS = {"cancelled": HTTPStatus.OK, "asked": HTTPStatus.ACCEPTED, "too_late": HTTPStatus.CONFLICT}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProgress:
    """How far the running attempt is; the total may be unknown."""

    done: float
    total: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What a client sees of a job; times are in UTC."""

    id: str
    state: str
    progress: ReportedProgress | None
    attempts: int
    cancel_asked: bool
    enqueued_at: datetime
    due_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job that is done returned."""

    id: str
    state: str
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancellation:
    """What became of the request: `cancelled`, `asked` (a running job is interrupted soon) or `too_late`."""

    id: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProblem:
    """Why there is no answer: `error` is a fixed name, `message` a sentence.

    Of a job that ended without a result, `state` says how, and `error_type` names the class of its last error.
    """

    error: str
    message: str
    id: str | None = None
    state: str | None = None
    error_type: str | None = None


JobBody = JobStatus | JobResult | JobCancellation | JobProblem


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """An answer for any framework."""

    status: int
    body: JobBody
    headers: dict[str, str] = field(default_factory=_NO_STORE.copy)

    @property
    def content(self) -> bytes:
        return msgspec.json.encode(self.body)


def is_job_id(id: str) -> bool:
    """Whether the backend could have made this id; anything else is not looked up."""
    try:
        return str(UUID(id)) == id
    except ValueError:
        return False


def status_of(info: JobInfo) -> JobStatus:
    progress = None if info.progress is None else ReportedProgress(done=info.progress.done, total=info.progress.total)
    return JobStatus(
        id=info.id,
        state=info.state,
        progress=progress,
        attempts=info.attempts,
        cancel_asked=info.cancel_asked,
        enqueued_at=info.enqueued_at,
        due_at=info.due_at,
        finished_at=info.finished_at,
    )


def status_answer(info: JobInfo) -> JobAnswer:
    return JobAnswer(HTTPStatus.OK, status_of(info))


def outcome_of(info: JobInfo) -> JobResult | JobProblem:
    """The result of a job that has ended, or why it has none."""
    if info.state == "done":
        try:
            return JobResult(id=info.id, state=info.state, result=info.result_as(Any))
        except ResultCut:
            text = "the result was too large to be stored"
            return JobProblem(error="result_cut", message=text, id=info.id, state=info.state)
    if info.state == "dead":
        last = info.failures[-1] if info.failures else None
        why, kind = (info.reason, None) if last is None else (last.error, last.error_type)
        return JobProblem(
            error="job_failed", message=why or "the job failed", id=info.id, state=info.state, error_type=kind
        )
    text = info.reason or f"the job was {info.state}"
    return JobProblem(error=f"job_{info.state}", message=text, id=info.id, state=info.state)


def result_answer(info: JobInfo) -> JobAnswer:
    """200 with the result; 202 with the status until the job has ended; 409 if it ended without a result."""
    if info.state not in END_STATES:
        headers = {**_NO_STORE, "retry-after": str(RETRY_SECONDS)}
        return JobAnswer(HTTPStatus.ACCEPTED, status_of(info), headers)
    outcome = outcome_of(info)
    return JobAnswer(HTTPStatus.OK if isinstance(outcome, JobResult) else HTTPStatus.CONFLICT, outcome)


def cancel_answer(id: str, result: CancelResult) -> JobAnswer:
    """200 if the job will not run, 202 if it runs and is interrupted soon, 409 if it had ended, 404 if unknown."""
    if result not in _CANCEL_STATUS:
        return not_found()
    return JobAnswer(_CANCEL_STATUS[result], JobCancellation(id=id, result=result))


def not_found() -> JobAnswer:
    """The same for an unknown job and for one that the client may not see."""
    return JobAnswer(HTTPStatus.NOT_FOUND, JobProblem(error="not_found", message="there is no such job"))


def bad_wait(longest: float) -> JobAnswer:
    text = f"wait must be a number of seconds from 0 to {longest:g}"
    return JobAnswer(HTTPStatus.BAD_REQUEST, JobProblem(error="bad_request", message=text))


def unavailable(text: str) -> JobAnswer:
    headers = {**_NO_STORE, "retry-after": str(RETRY_SECONDS)}
    return JobAnswer(HTTPStatus.SERVICE_UNAVAILABLE, JobProblem(error="service_unavailable", message=text), headers)
