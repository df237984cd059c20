"""The routes about single jobs for Litestar, with their models in OpenAPI.

They read their parameters from the request: the way to declare them differs between versions of Litestar.
"""

from dataclasses import dataclass
from typing import Any

from litestar import MediaType, Request, Response, Router, delete, get
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import OpenAPIType, Operation, Parameter, Schema
from litestar.response import Stream

from tenure.app.tenure import Tenure
from tenure.integrations.job_api.answers import JobAnswer, JobCancellation, JobProblem, JobResult, JobStatus
from tenure.integrations.job_api.endpoints import MAX_WAIT, Authorize, JobEndpoints, wait_of
from tenure.integrations.job_api.event_stream import CONTENT_TYPE, HEADERS, LAST_ID

AnyRequest = Request[Any, Any, Any]


def _documented(model: type | None, description: str, media_type: str = MediaType.JSON) -> ResponseSpec:
    return ResponseSpec(model, generate_examples=False, description=description, media_type=media_type)


_REFUSALS = {
    404: _documented(JobProblem, "There is no such job for this client."),
    503: _documented(JobProblem, "The backend of the jobs cannot be reached."),
}
_STATUS = {**_REFUSALS, 200: _documented(JobStatus, "The job as it is now.")}
_RESULT = {
    **_REFUSALS,
    200: _documented(JobResult, "What the job returned."),
    202: _documented(JobStatus, "The job has not ended; ask again after `Retry-After` seconds."),
    400: _documented(JobProblem, f"`wait` is no number from 0 to {MAX_WAIT:g}."),
    409: _documented(JobProblem, "The job ended without a result: `error` and `state` say how."),
}
_CANCEL = {
    **_REFUSALS,
    200: _documented(JobCancellation, "The job will not run."),
    202: _documented(JobCancellation, "The job is running, and was asked to stop."),
    409: _documented(JobCancellation, "The job had ended."),
}
_EVENTS = {
    **_REFUSALS,
    200: _documented(str, "The events `state`, `progress` and `end`.", CONTENT_TYPE),
    204: _documented(None, "The client has seen the end."),
}


@dataclass
class _ResultOperation(Operation):
    """Tells of the query parameter, which is no parameter of the function."""

    def __post_init__(self) -> None:
        seconds = Schema(type=OpenAPIType.NUMBER, minimum=0, maximum=MAX_WAIT, default=0)
        wait = Parameter("wait", "query", seconds, description="Seconds to wait for the end of the job.")
        self.parameters = [*(self.parameters or ()), wait]


def jobs_router(app: Tenure, *, authorize: Authorize, path: str = "/jobs") -> Router:
    """Status, result, cancellation and events of a job; `TenurePlugin(app, authorize=...)` adds it.

    `authorize(request, job)` says whether the client may see the job, and with the method DELETE, cancel it.
    """
    endpoints = JobEndpoints(app, authorize)

    @get("/{id:str}", responses=_STATUS, summary="The state of a job, and its progress while it runs")
    async def read_job(request: AnyRequest) -> Response[bytes]:
        return _response(await endpoints.answer("status", request, _id(request)))

    @get("/{id:str}/result", responses=_RESULT, operation_class=_ResultOperation, summary="What a job returned")
    async def read_job_result(request: AnyRequest) -> Response[bytes]:
        wait = wait_of(request.query_params.get("wait"))
        return _response(await endpoints.answer("result", request, _id(request), wait))

    @delete("/{id:str}", status_code=200, responses=_CANCEL, summary="Cancel a job")
    async def cancel_job(request: AnyRequest) -> Response[bytes]:
        return _response(await endpoints.answer("cancel", request, _id(request)))

    @get("/{id:str}/events", responses=_EVENTS, summary="Server-sent events until the end of a job")
    async def follow_job(request: AnyRequest) -> Response[Any]:
        found = await endpoints.events(request, _id(request))
        if isinstance(found, JobAnswer):
            return _response(found)
        if request.headers.get("last-event-id") == LAST_ID:  # the browser has seen the end
            return Response(b"", status_code=204, headers=HEADERS)
        return Stream(found, media_type=CONTENT_TYPE, headers=HEADERS)

    return Router(path, route_handlers=[read_job, read_job_result, cancel_job, follow_job], tags=["jobs"])


def _id(request: AnyRequest) -> str:
    return str(request.path_params["id"])


def _response(answer: JobAnswer) -> Response[bytes]:
    return Response(answer.content, status_code=answer.status, headers=answer.headers, media_type=MediaType.JSON)
