"""The routes about single jobs for Quart, as a blueprint."""

from collections.abc import Awaitable, Callable

from quart import Blueprint, Response, request

from tenure.app.tenure import Tenure
from tenure.integrations.job_api.answers import JobAnswer
from tenure.integrations.job_api.endpoints import Action, Authorize, JobEndpoints, wait_of
from tenure.integrations.job_api.event_stream import CONTENT_TYPE, HEADERS, LAST_ID


def jobs_blueprint(app: Tenure, *, authorize: Authorize, url_prefix: str = "/jobs", name: str = "jobs") -> Blueprint:
    """Status, result, cancellation and events of a job: `web.register_blueprint(jobs_blueprint(app, authorize=...))`.

    `authorize(request, job)` says whether the client may see the job, and with the method DELETE, cancel it.
    """
    endpoints = JobEndpoints(app, authorize)
    blueprint = Blueprint(name, __name__, url_prefix=url_prefix)

    def view(action: Action) -> Callable[[str], Awaitable[Response]]:
        async def answer(id: str) -> Response:
            wait = wait_of(request.args.get("wait")) if action == "result" else 0.0
            return _response(await endpoints.answer(action, request, id, wait))

        return answer

    async def events(id: str) -> Response:
        found = await endpoints.events(request, id)
        if isinstance(found, JobAnswer):
            return _response(found)
        if request.headers.get("Last-Event-ID") == LAST_ID:  # the browser has seen the end
            return Response(status=204, headers=HEADERS)
        response = Response(found, content_type=CONTENT_TYPE, headers=HEADERS)
        response.timeout = None  # Quart would end it after a minute
        return response

    blueprint.add_url_rule("/<id>", "status", view("status"), methods=["GET"])
    blueprint.add_url_rule("/<id>", "cancel", view("cancel"), methods=["DELETE"])
    blueprint.add_url_rule("/<id>/result", "result", view("result"), methods=["GET"])
    blueprint.add_url_rule("/<id>/events", "events", events, methods=["GET"])
    return blueprint


def _response(answer: JobAnswer) -> Response:
    return Response(answer.content, answer.status, answer.headers, content_type="application/json")
