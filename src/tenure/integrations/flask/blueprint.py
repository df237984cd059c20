"""The routes about single jobs for Flask, as a blueprint.

A stream of events holds a thread of the server until the job ends, at most five minutes; so does a wait for a result.
"""

from collections.abc import Callable

from flask import Blueprint, Request, Response, request

from tenure.app.tenure import Tenure
from tenure.definition.job_info import JobInfo
from tenure.integrations.job_api.answers import JobAnswer
from tenure.integrations.job_api.endpoints import Action, BlockingJobEndpoints, wait_of
from tenure.integrations.job_api.event_stream import CONTENT_TYPE, HEADERS, LAST_ID


def jobs_blueprint(
    app: Tenure,
    *,
    authorize: Callable[[Request, JobInfo], bool],
    url_prefix: str = "/jobs",
    max_streams: int = 4,
    name: str = "jobs",
) -> Blueprint:
    """Status, result, cancellation and events of a job: `web.register_blueprint(jobs_blueprint(app, authorize=...))`.

    `authorize(request, job)` says whether the client may see the job, and with the method DELETE, cancel it. At most
    `max_streams` clients follow events at once, each in a thread of the server; more get the state every two seconds.
    """
    endpoints = BlockingJobEndpoints(app, authorize, max_streams)
    blueprint = Blueprint(name, __name__, url_prefix=url_prefix)

    def view(action: Action) -> Callable[[str], Response]:
        def answer(id: str) -> Response:
            wait = wait_of(request.args.get("wait")) if action == "result" else 0.0
            return _response(endpoints.answer(action, request, id, wait))

        return answer

    def events(id: str) -> Response:
        found = endpoints.events(request, id)
        if isinstance(found, JobAnswer):
            return _response(found)
        if request.headers.get("Last-Event-ID") == LAST_ID:  # the browser has seen the end
            found.close()
            return Response(status=204, headers=HEADERS)
        return Response(found, content_type=CONTENT_TYPE, headers=HEADERS)

    blueprint.add_url_rule("/<id>", "status", view("status"), methods=["GET"])
    blueprint.add_url_rule("/<id>", "cancel", view("cancel"), methods=["DELETE"])
    blueprint.add_url_rule("/<id>/result", "result", view("result"), methods=["GET"])
    blueprint.add_url_rule("/<id>/events", "events", events, methods=["GET"])
    return blueprint


def _response(answer: JobAnswer) -> Response:
    return Response(answer.content, answer.status, answer.headers, content_type="application/json")
