"""SignIn: knows users by their session, token or link, or by a hook of the host; the pages to sign in and out."""

import inspect
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from math import ceil
from typing import Any, Literal
from urllib.parse import urlencode

from anyio import from_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Dashboard
from tenure.errors import TenureError
from tenure.redaction import one_line
from tenure.web.gate import AnyHandler
from tenure.web.passwords import hash_token, is_right
from tenure.web.preferences import preferences_of
from tenure.web.problems import BEARER, HttpRefusal
from tenure.web.render import Renderer
from tenure.web.requests import Form, delete_cookie, path_of, root_of, see_other, set_cookie
from tenure.web.security import inside
from tenure.web.sessions import Session, Sessions
from tenure.web.sign_in_audit import SignInAudit
from tenure.web.sign_in_limits import SignInLimits
from tenure.web.signing import app_signer
from tenure.web.users import Users

logger = logging.getLogger(__name__)

Hook = Callable[[Request], Access | Awaitable[Access | None] | None]
_FOUND = "tenure.session"  # where a request keeps its session
_CLOSED = (
    "This dashboard has no users yet. Add a user to the setting 'dashboard', or give an access hook where the "
    "dashboard is mounted: see the page 'Secure the dashboard' of the documentation."
)
_LINKS = {
    "used": "This link has been used. A one-time link works once, for 5 minutes.",
    "expired": "This link is too old. A one-time link works once, for 5 minutes.",
    "unknown": "This link is not known. It may be of another process, or of one that has ended.",
}


class SignIn:
    """The gate of a dashboard: who is known, and how others get in."""

    def __init__(
        self, dashboard: Dashboard, users: Users, hook: Hook | None = None, *, cookie: str = "tenure_session"
    ) -> None:
        """`cookie` is the name of the session cookie: hosts of several dashboards need several names."""
        self._users = users
        self._hook = hook
        self._cookie = cookie
        self._audit = SignInAudit(dashboard)
        self._limits = SignInLimits()
        signer = app_signer(dashboard.sources.app)
        self._sessions = Sessions(signer, self._secret_of, self._audit.has_ended)

    def identify(self, request: Request) -> Access | None:
        """The access of the token, of the host's hook, or of the session; None if the user is not known."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            access = self._users.tokens.get(hash_token(token.strip()))
            if access is not None:
                return access
            if self._hook is None:
                raise _unknown_token()
        if self._hook is not None and (access := _ask(self._hook, request)) is not None:
            return access
        session = self._session(request)
        return None if session is None else self._users.accounts[session.user].access

    def has_session(self, request: Request) -> bool:
        return self._session(request) is not None

    def quick_check(self, request: Request) -> Callable[[], bool] | None:
        """A session that was found needs no second look for some seconds; a hook is asked for every request."""
        session = self._session(request)
        return None if session is None or self._hook is not None else lambda: self._sessions.is_open(session)

    def refuse(self, request: Request, renderer: Renderer) -> Response:
        """Send a user to the page to sign in, if there is a way to; a link from another site is opened once more.

        Browsers do not send the cookie of the session with a click on another site; they do on the second request.
        """
        if not self._users.accounts:
            status = HTTPStatus.FORBIDDEN if self._hook is None else HTTPStatus.UNAUTHORIZED
            raise HttpRefusal(status, _CLOSED if self._hook is None else "The application does not know you.")
        if request.method != "GET":
            return see_other(f"{root_of(request)}/sign-in")
        query = f"?{request.url.query}" if request.url.query else ""
        address = inside(f"{path_of(request)}{query}", root_of(request)) or f"{root_of(request)}/"
        if request.headers.get("sec-fetch-site") == "cross-site":
            again = {"refresh": f"0; url={address}"}
            return _html(renderer, request, HTTPStatus.OK, "continue.html", again, address=address)
        return see_other(f"{root_of(request)}/sign-in?{urlencode({'back': address})}")

    def routes(self, renderer: Renderer) -> Sequence[tuple[str, str, AnyHandler]]:
        pages = SignInPages(self._users, self._sessions, self._limits, self._audit, renderer, self._cookie)
        return [
            ("/sign-in", "GET", lambda request, _: pages.show(request, self.identify(request) is not None)),
            ("/sign-in", "POST", pages.sign_in),
            ("/sign-out", "POST", lambda request, _: pages.sign_out(request, self._session(request))),
            ("/link/{token}", "GET", lambda request, _: pages.open_link(request)),
        ]

    def _session(self, request: Request) -> Session | None:
        token = request.cookies.get(self._cookie)
        if token is None:
            return None
        if _FOUND not in request.scope:  # a page and its frame both ask
            request.scope[_FOUND] = self._sessions.find(token)
        session: Session | None = request.scope[_FOUND]
        return session

    def _secret_of(self, user: str) -> bytes | None:
        account = self._users.accounts.get(user)
        return None if account is None else account.secret


class SignInPages:
    """The pages to sign in and out."""

    def __init__(
        self,
        users: Users,
        sessions: Sessions,
        limits: SignInLimits,
        audit: SignInAudit,
        renderer: Renderer,
        cookie: str,
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._limits = limits
        self._audit = audit
        self._renderer = renderer
        self._cookie = cookie

    def show(self, request: Request, is_known: bool) -> Response:
        back = inside(request.query_params.get("back", ""), root_of(request))
        if is_known:
            return see_other(back or f"{root_of(request)}/")
        if not self._users.accounts:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, _CLOSED)
        return self._form(request, HTTPStatus.OK, back=back)

    def sign_in(self, request: Request, form: Form) -> Response:
        """Check the password; a user that does not exist takes the same time as a wrong password."""
        fields = dict(form)
        if len(fields) != len(form) or set(fields) - {"user", "password", "back"}:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "The form has fields that it should not have.")
        name, address = fields.get("user", ""), _address(request)
        back = inside(fields.get("back", ""), root_of(request))
        wait = self._limits.attempt(address, name)
        if wait > 0:
            self._audit.refused(name, address, "too many attempts")
            note = f"Too many wrong passwords. Wait {_words(wait)}, then try again."
            headers = {"retry-after": str(ceil(wait))}
            return self._form(request, HTTPStatus.TOO_MANY_REQUESTS, back=back, user=name, note=note, headers=headers)
        account = self._users.accounts.get(name)
        if not is_right(fields.get("password", ""), None if account is None else account.password):
            self._audit.refused(name, address, "wrong user or password")
            note = "The user or the password is wrong."
            return self._form(request, HTTPStatus.UNAUTHORIZED, back=back, user=name, note=note)
        self._limits.succeeded(address, name)
        return self._begin(request, name, "password", back, "strict")

    def sign_out(self, request: Request, session: Session | None) -> Response:
        response = see_other(f"{root_of(request)}/sign-in")
        if session is not None:
            self._sessions.end(session)
            self._audit.signed_out(session)
        delete_cookie(response, request, self._cookie)
        return response

    def open_link(self, request: Request) -> Response:
        """Use a one-time link; only users of the same host learn what is wrong with it."""
        links, owner = self._users.links, self._users.owner
        if links is None or owner is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "This dashboard has no one-time links.")
        if request.method == "HEAD":  # a program that looks at the link must not use it up
            return Response(status_code=HTTPStatus.NO_CONTENT)
        token, address = request.path_params["token"], _address(request)
        state = links.use(token)
        if state != "valid":
            self._audit.refused("", address, f"the one-time link is {state}")
            note = _LINKS[state] if _is_loopback(address) else "This link does not open the dashboard."
            return self._form(request, HTTPStatus.FORBIDDEN, note=note, is_link=True)
        try:
            return self._begin(request, owner, "one-time link", None, "lax")  # the link may be on another site's page
        except TenureError:  # the sign-in cannot be written down now
            links.give_back(token)
            raise

    def _begin(
        self, request: Request, name: str, means: str, back: str | None, same_site: Literal["lax", "strict"]
    ) -> Response:
        session, token = self._sessions.begin(name, self._users.session_seconds)
        self._audit.signed_in(session, _address(request), means)
        response = see_other(back or f"{root_of(request)}/")
        set_cookie(
            response, request, self._cookie, token, seconds=int(self._users.session_seconds), same_site=same_site
        )
        return response

    def _form(
        self, request: Request, status: HTTPStatus, headers: dict[str, str] | None = None, **values: Any
    ) -> Response:
        context = {"back": None, "user": "", "note": None, "is_link": False, **values}
        context |= {"have_passwords": self._users.have_passwords, "has_links": self._users.links is not None}
        return _html(self._renderer, request, status, "sign-in.html", headers or {}, **context)


def _html(
    renderer: Renderer, request: Request, status: HTTPStatus, template: str, headers: dict[str, str], **values: Any
) -> Response:
    body = renderer.bare(template, root_of(request), preferences_of(request).theme, values)
    return HTMLResponse(body, status, {**headers, "cache-control": "no-store"})


def _ask(hook: Hook, request: Request) -> Access | None:
    """The answer of the hook, which runs in a thread; one that is async is awaited on the event loop."""
    answer = hook(request)
    if inspect.isawaitable(answer):
        answer = from_thread.run(_awaited, answer)
    if answer is not None and not isinstance(answer, Access):
        raise TypeError(f"the access hook must return an Access or None, not {type(answer).__qualname__}")
    return answer


async def _awaited(answer: Awaitable[Access | None]) -> Access | None:
    return await answer


def _unknown_token() -> HttpRefusal:
    return HttpRefusal(HTTPStatus.UNAUTHORIZED, "The token is not known.", BEARER)


def _address(request: Request) -> str:
    return one_line(request.client.host)[:64] if request.client else "an unknown address"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _words(seconds: float) -> str:
    minutes = ceil(seconds / 60)
    return f"{minutes} minutes" if minutes > 1 else "a minute"
