"""The dashboard at a path of a Flask application."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

if TYPE_CHECKING:
    from tenure.web.wsgi_bridge import StartResponse, WsgiDashboard


def mount_dashboard(web: flask.Flask, dashboard: "WsgiDashboard", path: str = "/tenure") -> None:
    """Serve the dashboard that `tenure.web.wsgi` made below a path.

    Its access hook may use `flask.session` and `flask.current_app`. Functions such as `before_request` are not called.
    """

    def in_request_context(environ: dict[str, Any], start_response: "StartResponse") -> Iterable[bytes]:
        with web.request_context(environ):
            return dashboard(environ, start_response)

    web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {path.rstrip("/"): in_request_context})  # type: ignore[method-assign]
