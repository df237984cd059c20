"""FlaskTenure: gives jobs an application context, and the command line of Flask the commands of Tenure."""

from collections.abc import Callable
from typing import Any

import flask
from flask.cli import ScriptInfo

from tenure.app.tenure import Tenure
from tenure.definition.context import Context
from tenure.integrations.pallets.application import no_application
from tenure.integrations.pallets.commands import tenure_command
from tenure.integrations.pallets.configuration import configure_and_claim


class FlaskTenure:
    """Joins a Tenure app to Flask applications, one or several: `FlaskTenure(jobs).init_app(web)`.

    Make it before other middleware of the app, which then runs inside the application context. The job's context
    belongs to the application whose context is active where the job runs, else to the last one that was initialised.
    """

    def __init__(self, app: Tenure, web: flask.Flask | None = None, *, key: str = "tenure") -> None:
        """`key` is the name in `extensions`, of the settings (`TENURE_URL`) and of the command `flask tenure`."""
        self.app = app
        self.key = key
        self._web: flask.Flask | None = None
        app.middleware(self._in_app_context)
        app.middleware(self._in_app_context_async)
        if web is not None:
            self.init_app(web)

    def init_app(self, web: flask.Flask) -> None:
        """Give the Tenure app the settings from the configuration of this application, and serve it."""
        configure_and_claim(web, self.app, self.key)
        self._web = web
        web.cli.add_command(tenure_command(self.key, "flask", ScriptInfo))

    def _in_app_context(self, ctx: Context, proceed: Callable[[], Any]) -> Any:
        with self._application(ctx).app_context():
            return proceed()

    async def _in_app_context_async(self, ctx: Context, proceed: Callable[[], Any]) -> Any:
        with self._application(ctx).app_context():
            return await proceed()

    def _application(self, ctx: Context) -> flask.Flask:
        if flask.has_app_context() and flask.current_app.extensions.get(self.key) is self.app:
            active: flask.Flask = flask.current_app._get_current_object()  # type: ignore[attr-defined]
            return active
        if self._web is not None:
            return self._web
        raise no_application(ctx, "flask")
