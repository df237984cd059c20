"""The JSON API: the same queries, models and commands as the pages, under `/api`.

`GET /api/<page>` returns the model of a page, and takes the parameters of its address.
`POST /api/act/<action>` takes the fields of a command and `why` as a JSON object, and returns the audit record; with
`?dry_run=1` it returns what the command would do. `GET /api/openapi.json` describes all of it.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.action_record import action_record
from tenure.app.dashboard.catalogue import BY_ACTION
from tenure.app.dashboard.core import Command, Dashboard
from tenure.errors import InvalidFilter, JobNotFound
from tenure.web.openapi import describe_api
from tenure.web.pages import PAGES, Page, query_of
from tenure.web.problems import HttpRefusal

Authenticate = Callable[[Request], Access]
Answer = Callable[[Request], Response]
MAX_BODY = 1_000_000  # bytes of a request: the ids of some ten thousand jobs
_encode = msgspec.json.Encoder(decimal_format="string").encode


class ApiError(Struct, frozen=True, kw_only=True):
    """What went wrong: `error` is a name for programs, `message` a sentence for people."""

    error: str
    message: str


class JsonApi:
    """Answers the requests of the API for one dashboard."""

    def __init__(self, dashboard: Dashboard, authenticate: Authenticate) -> None:
        self._dashboard = dashboard
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """The routes, to be mounted below the prefix `/api`."""
        return [
            Route("/openapi.json", self._describe, methods=["GET"]),
            Route("/act/{action}", self._act, methods=["POST"]),
            Route("/actions/{id}", self._record, methods=["GET"]),
            Route("/actions/{id}/stop", self._stop, methods=["POST"]),
            *(Route(api_path(page), self._page(page), methods=["GET"]) for page in PAGES),
        ]

    def _page(self, page: Page) -> Answer:
        def answer(request: Request) -> Response:
            access = self._authenticate(request)
            query = query_of(page, request.query_params.multi_items(), request.path_params)
            return json_response(self._dashboard.read(query, access))

        return answer

    async def _act(self, request: Request) -> Response:
        body = await read_body(request)
        return await _in_thread(lambda: self._acted(request, body))

    def _acted(self, request: Request, body: bytes) -> Response:
        access = self._authenticate(request)
        command, why = command_of(request.path_params["action"], body)
        if request.query_params.get("dry_run") in ("1", "true"):
            return json_response(self._dashboard.preview(command, access))
        record = self._dashboard.start(command, access, why, origin="api")
        status = HTTPStatus.ACCEPTED if record.state == "running" else HTTPStatus.OK
        return json_response(action_record(record), status)

    def _record(self, request: Request) -> Response:
        access = self._authenticate(request)
        return json_response(action_record(self._dashboard.record(request.path_params["id"], access)))

    def _stop(self, request: Request) -> Response:
        access = self._authenticate(request)
        return json_response(action_record(self._dashboard.stop(request.path_params["id"], access, origin="api")))

    def _describe(self, request: Request) -> Response:
        return json_response(describe_api(request.scope.get("root_path", "").removesuffix("/api")))


def api_path(page: Page) -> str:
    """The path of a page below `/api`."""
    return "/overview" if page.path == "/" else page.path


def command_of(action: str, body: bytes) -> tuple[Command, str | None]:
    """The command that a request means, and its reason; raises InvalidFilter if it is none."""
    kind = BY_ACTION.get(action)
    if kind is None:
        raise JobNotFound(f"there is no action {action!r}; there are {', '.join(BY_ACTION)}")
    try:
        values: dict[str, Any] = msgspec.json.decode(body or b"{}", type=dict[str, Any])
        why = values.pop("why", None)
        _refuse_unknown(action, kind, values)
        return msgspec.convert(values, kind), None if why is None else msgspec.convert(why, str)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise InvalidFilter(
            f"the body of the request is not a JSON object with the fields of {action}: {error}"
        ) from error


def _refuse_unknown(action: str, kind: type[Any], values: Mapping[str, Any]) -> None:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    if unknown := sorted(set(values) - set(known)):
        raise InvalidFilter(f"{action} has no field {unknown[0]!r}; it has {', '.join(known)} and why")


async def read_body(request: Request) -> bytes:
    """The body of a request, unless it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise HttpRefusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body of the request has more than {MAX_BODY} bytes"
            )
    return body


def json_response(value: Any, status: int = HTTPStatus.OK) -> Response:
    return Response(_encode(value), status, media_type="application/json")


async def _in_thread(work: Callable[[], Response]) -> Response:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(work)
