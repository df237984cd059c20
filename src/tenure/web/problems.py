"""Problems: which HTTP status an error has, and what the page says about it."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus

from msgspec import Struct

from tenure.errors import (
    AccessDenied,
    ActionRefused,
    BackendError,
    BackendUnavailable,
    DuplicateJob,
    InvalidFilter,
    InvalidJob,
    PayloadErased,
    SettingsError,
    TenureError,
)

BEARER = {"www-authenticate": "Bearer"}
RETRY_SECONDS = 5  # what an answer advises while the backend is down
_STATUSES: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (InvalidFilter, HTTPStatus.BAD_REQUEST),
    (AccessDenied, HTTPStatus.FORBIDDEN),
    (BackendError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ActionRefused, HTTPStatus.CONFLICT),
    (DuplicateJob, HTTPStatus.CONFLICT),
    (PayloadErased, HTTPStatus.CONFLICT),
    (SettingsError, HTTPStatus.CONFLICT),
    (InvalidJob, HTTPStatus.BAD_REQUEST),
    (LookupError, HTTPStatus.NOT_FOUND),
)
TITLES: dict[int, str] = {
    HTTPStatus.BAD_REQUEST: "This request is wrong",
    HTTPStatus.UNAUTHORIZED: "Sign in first",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "This page cannot be used so",
    HTTPStatus.CONFLICT: "Nothing was changed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "This form is too large",
    HTTPStatus.REQUEST_URI_TOO_LONG: "This address is too long",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "This form cannot be read",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many attempts",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The dashboard failed",
    HTTPStatus.SERVICE_UNAVAILABLE: "The backend does not answer",
}
_INTERNAL = "The error is in the log of the process that serves this page, with the time above. Nothing else is known."


class HttpRefusal(Exception):
    """The web layer refuses a request; the text is shown to the user."""

    def __init__(self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


class Problem(Struct, frozen=True, kw_only=True):
    """What a page of an error says: what failed, since when, and what is tried next."""

    status: int
    title: str
    text: str
    since: datetime | None = None
    next: str | None = None


def status_of(error: Exception) -> HTTPStatus:
    """The HTTP status that tells what went wrong."""
    if isinstance(error, HttpRefusal):
        return error.status
    if not isinstance(error, TenureError):
        return HTTPStatus.INTERNAL_SERVER_ERROR
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def problem_of(error: Exception) -> Problem:
    """What to tell about an error; one that was not raised on purpose is not shown."""
    status = status_of(error)
    is_known = status != HTTPStatus.INTERNAL_SERVER_ERROR
    text = str(error) if is_known else _INTERNAL
    title = TITLES.get(status, status.phrase)
    if isinstance(error, BackendError) and not isinstance(error, BackendUnavailable):
        title = "The backend could not do this"
    return Problem(status=status, title=title, text=f"{text[:1].upper()}{text[1:]}")
