"""The dashboard as a view of Django, for the admin or any other address; Django's permissions decide.

`tenure.view_jobs` reads, `tenure.operate_jobs` acts, `tenure.admin_jobs` also deletes and reads the settings. A user
needs `is_staff` too; a superuser has every permission. Requests that change something are checked by the dashboard's
own rule for the headers Origin and Sec-Fetch-Site, so the view is exempt from Django's CSRF token.
"""

import threading
from io import BytesIO
from typing import TYPE_CHECKING, Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import NoReverseMatch, reverse
from django.views.decorators.csrf import csrf_exempt

from tenure import web
from tenure.app.dashboard.access import Access, Role
from tenure.integrations.django.current_app import get_app

if TYPE_CHECKING:  # the admin imports this module in every project, also in those without the extra `dashboard`
    from starlette.requests import Request

    from tenure.web.wsgi_bridge import WsgiDashboard

_ACCESS = "tenure.access"  # where a request keeps what its user may do
_ROLES: tuple[tuple[str, Role], ...] = (
    ("tenure.admin_jobs", "admin"),
    ("tenure.operate_jobs", "operator"),
    ("tenure.view_jobs", "viewer"),
)


def role_of(user: Any) -> Role | None:
    """What a user of Django may do in the dashboard; None: nothing. Without a middleware there is no user."""
    if user is None or not (user.is_active and user.is_staff):
        return None
    return next((role for permission, role in _ROLES if user.has_perm(permission)), None)


@csrf_exempt
def dashboard(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Every page of the dashboard; `path` is the part of the address below that of the dashboard.

    A program with a token of the setting `dashboard` needs no user of Django.
    """
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        if request.META.get("HTTP_AUTHORIZATION", "").lower().startswith("bearer "):
            return _answer(_environ(request, path, None))
        return redirect_to_login(request.get_full_path(), _login_address())
    role = role_of(user)
    if role is None:
        raise PermissionDenied("the dashboard needs a staff user with the permission tenure.view_jobs")
    return _answer(_environ(request, path, Access(user=user.get_username(), role=role)))


def _login_address() -> str | None:
    """Of the admin, or of the project where there is no admin."""
    try:
        return str(reverse("admin:login"))
    except NoReverseMatch:
        return None


def _environ(request: HttpRequest, path: str, access: Access | None) -> dict[str, Any]:
    """The request as WSGI describes it; Django makes META of an ASGI request alike."""
    full = request.path
    root = full.removesuffix(path) if path else full
    environ = {name: value for name, value in request.META.items() if isinstance(value, str)}
    return environ | {
        "SCRIPT_NAME": _raw(root.rstrip("/")),
        "PATH_INFO": _raw(f"/{path}"),
        "REQUEST_METHOD": request.method,
        "SERVER_PROTOCOL": environ.get("SERVER_PROTOCOL", "HTTP/1.1"),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": BytesIO(request.body),
        "CONTENT_LENGTH": str(len(request.body)),
        _ACCESS: access,
    }


def _raw(path: str) -> str:
    return path.encode().decode("latin-1")


def _answer(environ: dict[str, Any]) -> HttpResponseBase:
    head: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:  # noqa: ARG001 - WSGI
        head.extend((int(status.split()[0]), headers))

    body = _mounted.application()(environ, start_response)
    status, headers = head
    is_download = any(name.lower() == "content-disposition" for name, _ in headers)
    answer: Any = (
        StreamingHttpResponse(body, status=status) if is_download else HttpResponse(b"".join(body), status=status)
    )
    _copy_headers(answer, headers)
    found: HttpResponseBase = answer
    return found


def _copy_headers(answer: Any, headers: list[tuple[str, str]]) -> None:
    del answer["Content-Type"]
    for name, value in headers:
        if name.lower() == "set-cookie":
            answer.cookies.load(value)
        elif name.lower() != "content-length" or not answer.streaming:
            answer[name] = value


class MountedDashboard:
    """The dashboard of the project, made at the first request of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._application: WsgiDashboard | None = None

    def application(self) -> "WsgiDashboard":
        with self._lock:
            if self._application is None:
                self._application = web.wsgi(get_app(), _access)
            return self._application

    def close(self) -> None:
        """End the threads of the dashboard, for tests; the next request starts them again."""
        with self._lock:
            application, self._application = self._application, None
        if application is not None:
            application.close()


def _access(request: "Request") -> Access | None:
    found: Access | None = request.scope["wsgi_environ"].get(_ACCESS)
    return found


_mounted = MountedDashboard()
close_dashboard = _mounted.close
