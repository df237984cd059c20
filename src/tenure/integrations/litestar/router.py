"""The routes about single jobs for Litestar.

They read their parameters from the request: the way to declare them differs between versions of Litestar.
"""

from typing import Any

from litestar import MediaType, Request, Response, Router, delete, get
from litestar.response import Stream

from tenure.app.tenure import Tenure
from tenure.integrations.job_api.answers import JobAnswer
from tenure.integrations.job_api.endpoints import Authorize, JobEndpoints, wait_of
from tenure.integrations.job_api.event_stream import CONTENT_TYPE, HEADERS, LAST_ID

AnyRequest = Request[Any, Any, Any]


def jobs_router(app: Tenure, *, authorize: Authorize, path: str = "/jobs") -> Router:
    """Status, result, cancellation and events of a job; `TenurePlugin(app, authorize=...)` adds it.

    `authorize(request, job)` says whether the client may see the job, and with the method DELETE, cancel it.
    """
    endpoints = JobEndpoints(app, authorize)

    @get("/{id:str}", summary="The state of a job, and its progress while it runs")
    async def read_job(request: AnyRequest) -> Response[bytes]:
        return _response(await endpoints.answer("status", request, _id(request)))

    @get("/{id:str}/result", summary="What a job returned")
    async def read_job_result(request: AnyRequest) -> Response[bytes]:
        wait = wait_of(request.query_params.get("wait"))
        return _response(await endpoints.answer("result", request, _id(request), wait))

    @delete("/{id:str}", status_code=200, summary="Cancel a job")
    async def cancel_job(request: AnyRequest) -> Response[bytes]:
        return _response(await endpoints.answer("cancel", request, _id(request)))

    @get("/{id:str}/events", summary="Server-sent events until the end of a job")
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
