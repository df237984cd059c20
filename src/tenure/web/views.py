"""Views: answers made of templates: pages with their cache and ETag, the result of a form, and errors."""

import hashlib
import logging
import zlib
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from markupsafe import escape
from msgspec import structs
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from tenure.app.dashboard.core import Dashboard
from tenure.errors import BackendError, TenureError
from tenure.web.flash import COOKIE as FLASH_COOKIE
from tenure.web.flash import FlashCookies
from tenure.web.gate import Gate
from tenure.web.page_cache import PageCache, Rendered
from tenure.web.pages import Page, query_of
from tenure.web.preferences import preferences_of
from tenure.web.problems import RETRY_SECONDS, HttpRefusal, Problem, problem_of
from tenure.web.recent_viewers import RecentViewers
from tenure.web.render import Address, Renderer
from tenure.web.requests import Handler, UserRequest, delete_cookie, path_of, root_of, see_other
from tenure.web.security import NO_STORE

logger = logging.getLogger(__name__)

_ANYBODY = f"user-{token_hex(8)}"  # stands for the name of the user in pages that users share


class Views:
    """What users see."""

    def __init__(self, dashboard: Dashboard, renderer: Renderer, flashes: FlashCookies, gate: Gate) -> None:
        self._dashboard = dashboard
        self._renderer = renderer
        self._flashes = flashes
        self._gate = gate
        self._recent = RecentViewers()
        self.cache = PageCache()

    def poll(self, scope: Scope) -> Response | None:
        """The answer to a viewer who got this page a moment ago, if it is known already; runs in the event loop."""
        viewer = self._recent.find(scope)
        shown = None if viewer is None else self.cache.fresh(viewer.page, self._dashboard.changes)
        if viewer is None or shown is None or shown.redirect is not None:
            return None
        return _html(_named(shown, viewer.user), Request(scope))

    def page(self, page: Page) -> Handler:
        """The handler of a page."""

        def answer(user: UserRequest) -> Response:
            toasts = self._flashes.toasts(user.request, user.access.user)
            shown = self._render(page, user, toasts) if toasts else self._shared(page, user)
            if shown.redirect is not None:
                return see_other(f"{user.root}{shown.redirect}")
            response = _html(shown, user.request)
            if FLASH_COOKIE in user.request.cookies:
                delete_cookie(response, user.request, FLASH_COOKIE)
            return response

        return answer

    def show(self, user: UserRequest, template: str, status: HTTPStatus, values: Mapping[str, Any]) -> Response:
        """A template in the frame of the user; it is not kept."""
        body = self._renderer.page(template, user.access, user.preferences, self._address(user, ""), values)
        return HTMLResponse(body, status, {"cache-control": NO_STORE})

    def failed(self, request: Request, error: Exception) -> Response:
        """The page of an error, with the frame if the user is known; it keeps the last figures."""
        problem = self._problem(error)
        headers = {"cache-control": NO_STORE, **(error.headers if isinstance(error, HttpRefusal) else {})}
        if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["retry-after"] = str(RETRY_SECONDS)
        try:
            body = self._error_page(request, problem)
        except Exception:
            logger.exception("the page of an error failed")
            return Response(f"{problem.title}. {problem.text}", problem.status, headers, "text/plain")
        return HTMLResponse(body, problem.status, headers)

    def _shared(self, page: Page, user: UserRequest) -> Rendered:
        """The page as all users with the same rights share it, with the name of this user."""
        request, access = user.request, replace(user.access, user=_ANYBODY)
        key = (request.url.query, user.path, user.root, self._gate.has_session(request), user.preferences, access)
        try:
            hash(key)
        except TypeError:  # an access with a list, from a hook
            return self._render(page, user)
        changes = self._dashboard.changes
        shown = self.cache.get(key, changes, lambda: self._render(page, replace(user, access=access)))
        is_known = self._gate.quick_check(request)
        if is_known is not None:
            self._recent.remember(request.scope, key, user.access.user, is_known)
        return _named(shown, user.access.user)

    def _render(self, page: Page, user: UserRequest, toasts: Any = ()) -> Rendered:
        request = user.request
        query = query_of(page, request.query_params.multi_items(), request.path_params)
        model = self._dashboard.read(query, user.access)
        redirect = getattr(model, "redirect", None)
        if redirect:
            return Rendered(b"", redirect=redirect)
        values = {"model": model, "query": query, "toasts": toasts}
        address = self._address(user, page.section)
        body = self._renderer.page(page.template, user.access, user.preferences, address, values)
        return Rendered(body, getattr(model, "status", HTTPStatus.OK), hashlib.sha256(body).hexdigest()[:32])

    def _address(self, user: UserRequest, page: str) -> Address:
        request = user.request
        return Address(
            page=page,
            root=user.root,
            path=user.path,
            query=request.url.query,
            has_session=self._gate.has_session(request),
        )

    def _problem(self, error: Exception) -> Problem:
        problem = problem_of(error)
        if not isinstance(error, BackendError):
            return problem
        figures = self._dashboard.sources.figures
        text = self._dashboard.sources.redactor.text(problem.text)
        return structs.replace(problem, text=text, since=figures.error_since or self._dashboard.sources.now)

    def _error_page(self, request: Request, problem: Problem) -> bytes:
        try:
            access = self._gate.identify(request)
        except (TenureError, HttpRefusal):
            access = None
        preferences, root = preferences_of(request), root_of(request)
        if access is None:
            return self._renderer.bare("error.html", root, preferences.theme, {"problem": problem})
        address = Address(
            page="",
            root=root,
            path=path_of(request),
            query=request.url.query,
            has_session=self._gate.has_session(request),
        )
        figures = self._dashboard.sources.figures
        seen = tuple(each for each in figures.queues if access.sees(each.name))
        values = {"problem": problem, "figures": structs.replace(figures, queues=seen)}
        return self._renderer.page("error.html", access, preferences, address, values)


def _named(shown: Rendered, user: str) -> Rendered:
    """A shared page with the name of a user."""
    name = str(escape(user)).encode()
    return shown._replace(body=shown.body.replace(_ANYBODY.encode(), name), etag=f"{shown.etag}-{zlib.crc32(name):08x}")


def _html(shown: Rendered, request: Request) -> Response:
    """The page, or only its ETag if the reader has it."""
    etag = f'"{shown.etag}"'
    headers = {"etag": etag, "cache-control": NO_STORE}
    given = request.headers.get("if-none-match", "")
    if shown.status == HTTPStatus.OK and etag in (each.strip().removeprefix("W/") for each in given.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return HTMLResponse(shown.body, shown.status, headers)
