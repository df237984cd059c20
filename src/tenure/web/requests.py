"""Requests: the user who sent one, the form that it carries, and the places to which an answer may lead."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from tenure.app.dashboard.access import Access
from tenure.web.problems import HttpRefusal
from tenure.web.render import Preferences

MAX_QUERY_BYTES = 16_384  # a page of 200 selected jobs needs 8 kB
MAX_FORM_BYTES = 1_048_576  # the largest payload that can be edited, with every byte escaped
_MAX_FIELDS = 2000
_FORM_TYPE = "application/x-www-form-urlencoded"

Form = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class UserRequest:
    """A request of a user who is known, with what the user chose and the form that was sent."""

    request: Request
    access: Access
    preferences: Preferences
    form: Form = ()

    @property
    def root(self) -> str:
        return root_of(self.request)

    @property
    def path(self) -> str:
        return path_of(self.request)


Handler = Callable[[UserRequest], Response]


def root_of(request: Request) -> str:
    """The path under which the dashboard is mounted; empty at the root of a host."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def path_of(request: Request) -> str:
    """The whole path of the address, with the prefix, as it was sent."""
    raw: bytes | None = request.scope.get("raw_path")
    root, path = root_of(request), request.scope["path"]
    text = raw.split(b"?")[0].decode("latin-1") if raw else path
    return text if text.startswith(f"{root}/") or text == root else f"{root}{text}"


async def read_form(request: Request) -> Form:
    """The fields of a form; refuses another type, and one that is too large before all of it was read."""
    headers: Headers = request.headers
    if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        if headers.get("content-length", "0") == "0":
            return ()
        raise HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Forms are sent as {_FORM_TYPE}.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A form may have {MAX_FORM_BYTES:,} bytes.")
    try:
        text = body.decode("ascii")
        return tuple(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"))
    except ValueError as error:
        raise HttpRefusal(
            HTTPStatus.BAD_REQUEST, "The form cannot be read: it is damaged or has too many fields."
        ) from error


def check_size(request: Request) -> None:
    """Refuse an address that is longer than any of ours."""
    if len(request.scope.get("query_string", b"")) > MAX_QUERY_BYTES:
        raise HttpRefusal(HTTPStatus.REQUEST_URI_TOO_LONG, f"An address may have {MAX_QUERY_BYTES:,} bytes of filters.")


def see_other(address: str) -> Response:
    """Send the browser to an address inside the dashboard; no host is named, so none can be forged."""
    headers = {"location": address, "cache-control": "no-store"}
    return Response(status_code=HTTPStatus.SEE_OTHER, headers=headers, media_type="text/plain")


def set_cookie(
    response: Response,
    request: Request,
    name: str,
    value: str,
    *,
    seconds: int,
    same_site: Literal["lax", "strict"] = "strict",
) -> None:
    """A cookie of this dashboard only, which scripts cannot read; over https it is never sent in clear."""
    response.set_cookie(
        name, value, max_age=seconds, path=root_of(request) or "/", secure=request.scope.get("scheme") == "https",
        httponly=True, samesite=same_site,
    )  # fmt: skip


def delete_cookie(response: Response, request: Request, name: str) -> None:
    set_cookie(response, request, name, "", seconds=0)
