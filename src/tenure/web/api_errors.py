"""JsonErrors: answers the errors of the JSON API as objects with a name and a sentence."""

import logging
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tenure.errors import TenureError
from tenure.web.api import ApiError, json_response
from tenure.web.problems import RETRY_SECONDS, HttpRefusal, status_of

logger = logging.getLogger(__name__)


class JsonErrors:
    """Wraps the routes of the API, which send nothing before their answer is complete."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            await error_response(error)(scope, receive, send)


def error_response(error: Exception) -> Response:
    """The answer to an error; one that was not raised on purpose is logged, and tells nothing of itself."""
    if isinstance(error, HTTPException):
        status, message, headers = HTTPStatus(error.status_code), str(error.detail), dict(error.headers or {})
    elif isinstance(error, TenureError | HttpRefusal):
        status, message = status_of(error), str(error)
        headers = error.headers if isinstance(error, HttpRefusal) else {}
    else:
        logger.error("a request to the API failed", exc_info=error)
        status, message, headers = HTTPStatus.INTERNAL_SERVER_ERROR, "", {}
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        message = "the dashboard failed; its log says why"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = {**headers, "retry-after": str(RETRY_SECONDS)}
    response = json_response(ApiError(error=status.name.lower(), message=message), status)
    response.headers.update(headers)
    return response
