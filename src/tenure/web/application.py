"""The ASGI application: routes, who may use them, and the threads that answer.

Handlers are plain functions that run in a few threads of their own, so that a slow backend holds up neither the event
loop nor the other users of its threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Dashboard
from tenure.errors import TenureError
from tenure.web.actions import Actions
from tenure.web.api import JsonApi
from tenure.web.api_errors import JsonErrors
from tenure.web.downloads import letters_download
from tenure.web.flash import FlashCookies
from tenure.web.gate import AnyHandler, Authenticate, Gate, HookGate
from tenure.web.pages import PAGES
from tenure.web.preferences import change_preferences, preferences_of
from tenure.web.problems import BEARER, RETRY_SECONDS, HttpRefusal
from tenure.web.render import Renderer
from tenure.web.requests import Form, Handler, UserRequest, check_size, path_of, read_form
from tenure.web.secure_responses import SecureResponses
from tenure.web.security import SAFE_METHODS, cross_site_fault
from tenure.web.signing import app_signer
from tenure.web.views import Views

logger = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]
_THREADS = 8
_MAX_WAITING = 100  # requests that wait for a thread; more are refused
_HTTP_TEXTS = {
    HTTPStatus.NOT_FOUND: "There is no such page.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not accept such a request.",
}


class WebDashboard:
    """Answers the requests of one dashboard."""

    def __init__(self, dashboard: Dashboard, gate: Gate, trusted_origins: frozenset[str] = frozenset()) -> None:
        self._dashboard = dashboard
        self._gate = gate
        self._trusted = trusted_origins
        self._renderer = Renderer(dashboard)
        self._flashes = FlashCookies(app_signer(dashboard.sources.app))
        self.views = Views(dashboard, self._renderer, self._flashes, gate)
        self._waiting = 0  # requests that have a thread or wait for one
        self._limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()

    def application(self) -> ASGIApp:
        starlette = Starlette(routes=self._routes(), exception_handlers={HTTPException: self._http_exception})
        starlette.router.redirect_slashes = False  # it would name the host that the client sent
        return SecureResponses(Polled(starlette, self.views))

    def _routes(self) -> list[BaseRoute]:
        actions = Actions(self._dashboard, self._flashes, self.views.show)
        for_users: list[tuple[str, str, Handler]] = [
            *((page.path, "GET", self.views.page(page)) for page in PAGES if page.template),
            ("/audit/{id}", "GET", actions.progress),
            ("/dead/export", "GET", letters_download(self._dashboard)),
            ("/act/bulk.stop", "POST", actions.stop),
            ("/act/{action}", "GET", actions.ask),
            ("/act/{action}", "POST", actions.act),
            ("/preferences", "POST", change_preferences),
        ]
        static = self._renderer.static
        pages = _routes(
            [
                ("/static/{path:path}", "GET", lambda request, _: static.answer(request)),
                *self._gate.routes(self._renderer),
                *((path, method, self._for_users(handler)) for path, method, handler in for_users),
            ],
            self._endpoint,
        )
        api = JsonErrors(Router(JsonApi(self._dashboard, self._api_access).routes(), redirect_slashes=False))
        return [*pages, Mount("/api", api)]

    def _api_access(self, request: Request) -> Access:
        self._check(request)
        access = self._gate.identify(request)
        if access is None:
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "Send a token in the header Authorization: Bearer.", BEARER)
        return access

    def _check(self, request: Request) -> None:
        """Refuse what is too long, or what another site may have sent."""
        check_size(request)
        fault = cross_site_fault(request.method, request.headers, self._trusted)
        if fault is not None:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, f"This request was refused: {fault}.")

    def _endpoint(self, handlers: dict[str, AnyHandler]) -> Endpoint:
        async def answer(request: Request) -> Response:
            try:
                self._check(request)
                form = () if request.method in SAFE_METHODS else await read_form(request)
            except HttpRefusal as error:
                refusal = error
                return await self._in_thread(lambda: self.views.failed(request, refusal))
            handler = handlers["GET" if request.method == "HEAD" else request.method]
            return await self._in_thread(lambda: self._answer(handler, request, form))

        return answer

    def _answer(self, handler: AnyHandler, request: Request, form: Form) -> Response:
        try:
            return handler(request, form)
        except (TenureError, HttpRefusal) as error:
            return self.views.failed(request, error)
        except Exception as error:
            logger.exception("the request %s %s failed", request.method, path_of(request))
            return self.views.failed(request, error)

    def _for_users(self, handler: Handler) -> AnyHandler:
        def answer(request: Request, form: Form) -> Response:
            access = self._gate.identify(request)
            if access is None:
                return self._gate.refuse(request, self._renderer)
            return handler(UserRequest(request, access, preferences_of(request), form))

        return answer

    async def _http_exception(self, request: Request, error: Exception) -> Response:
        status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else 500)
        headers = error.headers if isinstance(error, HTTPException) else None
        refusal = HttpRefusal(status, _HTTP_TEXTS.get(status, status.phrase), headers)
        return await self._in_thread(lambda: self.views.failed(request, refusal))

    async def _in_thread(self, work: Callable[[], Response]) -> Response:
        loop = asyncio.get_running_loop()
        limiter = self._limiters.get(loop)
        if limiter is None:
            limiter = self._limiters[loop] = CapacityLimiter(_THREADS)
        if self._waiting >= _THREADS + _MAX_WAITING:
            text, headers = "Too many requests are waiting; try again.", {"retry-after": str(RETRY_SECONDS)}
            return Response(text, HTTPStatus.SERVICE_UNAVAILABLE, headers, "text/plain")
        self._waiting += 1
        try:
            return await run_sync(work, limiter=limiter)
        finally:
            self._waiting -= 1


class Polled:
    """Answers a viewer who asks for the same page again, before anything else is asked."""

    def __init__(self, app: ASGIApp, views: Views) -> None:
        self._app = app
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._views.poll(scope) if scope["type"] == "http" else None
        await (self._app if answer is None else answer)(scope, receive, send)


def application(dashboard: Dashboard, authenticate: Authenticate) -> ASGIApp:
    """The dashboard for those whom a function knows."""
    return WebDashboard(dashboard, HookGate(authenticate)).application()


def _routes(
    handlers: Iterable[tuple[str, str, AnyHandler]], endpoint: Callable[[dict[str, AnyHandler]], Endpoint]
) -> list[Route]:
    """One route for each path, so that another method is answered with 405."""
    by_path: dict[str, dict[str, AnyHandler]] = {}
    for path, method, handler in handlers:
        by_path.setdefault(path, {})[method] = handler
    return [Route(path, endpoint(methods), methods=list(methods)) for path, methods in by_path.items()]
