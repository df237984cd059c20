"""The dashboard at a path of a Flask application."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from tenure.app.tenure import Tenure

if TYPE_CHECKING:
    from tenure.web.sign_in import Hook
    from tenure.web.wsgi_bridge import StartResponse, WsgiDashboard


def mount_dashboard(
    web: flask.Flask, app: Tenure, access: "Hook | None" = None, *, path: str = "/tenure"
) -> "WsgiDashboard":
    """Serve the dashboard below a path; its hook may use `flask.session` and `flask.current_app`.

    Functions such as `before_request` are not called for it.
    """
    from tenure.web import wsgi

    dashboard = wsgi(app, access)

    def in_request_context(environ: dict[str, Any], start_response: "StartResponse") -> Iterable[bytes]:
        with web.request_context(environ):
            return dashboard(environ, start_response)

    web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {path.rstrip("/"): in_request_context})  # type: ignore[method-assign]
    return dashboard
