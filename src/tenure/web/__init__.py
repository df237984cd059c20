"""The dashboard in a browser, and its JSON API: thin layers over `tenure.app.dashboard`.

`asgi` and `wsgi` make an application to mount in yours, at any path. They need `pip install 'tenure[dashboard]'`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tenure.app.dashboard.access import Access
from tenure.errors import SettingsError

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure
    from tenure.web.mount import AsgiDashboard
    from tenure.web.sign_in import Hook
    from tenure.web.wsgi_bridge import WsgiDashboard

__all__ = ["Access", "asgi", "check_installed", "wsgi"]


def asgi(app: "Tenure", access: "Hook | None" = None, *, trusted_origins: Iterable[str] = ()) -> "AsgiDashboard":
    """The dashboard of an app, for FastAPI, Starlette, Litestar, Django or any other ASGI server.

    `access(request)` says what the user of a request may see and do; None: the user must sign in. `request` is a
    `starlette.requests.Request`. The hook may be async. Without a hook, only the users of the settings may sign in, and
    without users the dashboard is closed. Forms of `trusted_origins` are accepted too.
    """
    check_installed()
    from tenure.web.mount import AsgiDashboard

    return AsgiDashboard(app, access, trusted_origins)


def wsgi(app: "Tenure", access: "Hook | None" = None, *, trusted_origins: Iterable[str] = ()) -> "WsgiDashboard":
    """As `asgi`, for Flask, Django or any other WSGI server; the environment is `request.scope["wsgi_environ"]`."""
    check_installed()
    from tenure.web.wsgi_bridge import WsgiDashboard

    return WsgiDashboard(asgi(app, access, trusted_origins=trusted_origins))


def check_installed() -> None:
    """Raise SettingsError unless the packages that the dashboard needs are installed."""
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"the dashboard needs the package {error.name!r}; install it with: pip install 'tenure[dashboard]'"
        ) from error
