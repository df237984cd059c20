"""The routes about single jobs for Starlette."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router

from tenure.app.tenure import Tenure
from tenure.integrations.job_api.answers import JobAnswer
from tenure.integrations.job_api.endpoints import Action, Authorize, JobEndpoints, wait_of
from tenure.integrations.job_api.event_stream import CONTENT_TYPE, HEADERS, LAST_ID


def jobs_router(app: Tenure, *, authorize: Authorize) -> Router:
    """Status, result, cancellation and events of a job, to be mounted: `Mount("/jobs", jobs_router(...))`.

    `authorize(request, job)` says whether the client may see the job, and with the method DELETE, cancel it.
    """
    endpoints = JobEndpoints(app, authorize)

    def route(action: Action) -> Callable[[Request], object]:
        async def endpoint(request: Request) -> Response:
            wait = wait_of(request.query_params.get("wait")) if action == "result" else 0.0
            return response_of(await endpoints.answer(action, request, request.path_params["id"], wait))

        return endpoint

    async def events(request: Request) -> Response:
        return await events_response(endpoints, request, request.path_params["id"])

    return Router(
        [
            Route("/{id}", route("status"), methods=["GET"]),
            Route("/{id}", route("cancel"), methods=["DELETE"]),
            Route("/{id}/result", route("result"), methods=["GET"]),
            Route("/{id}/events", events, methods=["GET"]),
        ],
        redirect_slashes=False,
    )


def response_of(answer: JobAnswer) -> Response:
    return Response(answer.content, answer.status, answer.headers, media_type="application/json")


async def events_response(endpoints: JobEndpoints, request: Request, id: str) -> Response:
    """A stream that Starlette ends when the client goes away."""
    found = await endpoints.events(request, id)
    if isinstance(found, JobAnswer):
        return response_of(found)
    if request.headers.get("last-event-id") == LAST_ID:  # the browser has seen the end
        return Response(status_code=204, headers=HEADERS)
    return StreamingResponse(found, media_type=CONTENT_TYPE, headers=HEADERS)
