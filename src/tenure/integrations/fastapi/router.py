"""The routes about single jobs for FastAPI, with their models in OpenAPI."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from tenure.app.tenure import Tenure
from tenure.integrations.job_api.answers import JobCancellation, JobProblem, JobResult, JobStatus
from tenure.integrations.job_api.endpoints import MAX_WAIT, Authorize, JobEndpoints
from tenure.integrations.job_api.event_stream import CONTENT_TYPE
from tenure.integrations.starlette.router import events_response, response_of

JobId = Annotated[str, Path(description="What `enqueue` returned.")]
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for the end of the job.")]
_Responses = dict[int | str, dict[str, Any]]
_UNKNOWN: _Responses = {404: {"model": JobProblem, "description": "There is no such job for this client."}}
_DOWN: _Responses = {503: {"model": JobProblem, "description": "The backend of the jobs cannot be reached."}}
_RESULT: _Responses = {
    202: {"model": JobStatus, "description": "The job has not ended; ask again after `Retry-After` seconds."},
    409: {"model": JobProblem, "description": "The job ended without a result: `error` and `state` say how."},
}
_CANCEL: _Responses = {
    202: {"model": JobCancellation, "description": "The job is running, and was asked to stop."},
    409: {"model": JobCancellation, "description": "The job had ended."},
}
_EVENTS: _Responses = {
    200: {"content": {CONTENT_TYPE: {}}, "description": "The events `state`, `progress` and `end`."},
    204: {"description": "The client has seen the end."},
}


def jobs_router(app: Tenure, *, authorize: Authorize, prefix: str = "/jobs") -> APIRouter:
    """Status, result, cancellation and events of a job: `web.include_router(jobs_router(app, authorize=...))`.

    `authorize(request, job)` says whether the client may see the job, and with the method DELETE, cancel it.
    """
    endpoints = JobEndpoints(app, authorize)
    router = APIRouter(prefix=prefix, tags=["jobs"], responses=_UNKNOWN | _DOWN)

    @router.get("/{id}", response_model=JobStatus)
    async def read_job(request: Request, id: JobId) -> Response:
        """The state of a job, and its progress while it runs."""
        return response_of(await endpoints.answer("status", request, id))

    @router.get("/{id}/result", response_model=JobResult, responses=_RESULT)
    async def read_job_result(request: Request, id: JobId, wait: Wait = 0) -> Response:
        """What a job returned."""
        return response_of(await endpoints.answer("result", request, id, wait))

    @router.delete("/{id}", response_model=JobCancellation, responses=_CANCEL)
    async def cancel_job(request: Request, id: JobId) -> Response:
        """Cancel a job: one that waits never runs, one that runs is interrupted."""
        return response_of(await endpoints.answer("cancel", request, id))

    @router.get("/{id}/events", response_class=Response, responses=_EVENTS)
    async def follow_job(request: Request, id: JobId) -> Response:
        """Server-sent events until the end of the job."""
        return await events_response(endpoints, request, id)

    return router
