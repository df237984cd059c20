"""Downloads: what a user takes away as a file, streamed while it is read."""

from http import HTTPStatus

from starlette.responses import Response, StreamingResponse

from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.letter_actions import ExportedLetters, export_letters
from tenure.web.fields import from_fields
from tenure.web.requests import Handler, UserRequest
from tenure.web.security import NO_STORE


def letters_download(dashboard: Dashboard) -> Handler:
    """The handler that sends dead letters as lines of JSON."""

    def answer(user: UserRequest) -> Response:
        parameters = user.request.query_params.multi_items()
        wanted = from_fields(ExportedLetters, parameters, where="the export of dead letters")
        lines = export_letters(dashboard.sources, user.access, wanted)
        headers = {"content-disposition": 'attachment; filename="dead-letters.jsonl"', "cache-control": NO_STORE}
        return StreamingResponse(lines, HTTPStatus.OK, headers, "application/x-ndjson")

    return answer
