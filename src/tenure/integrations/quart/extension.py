"""QuartTenure: opens the Tenure app with the server, gives async jobs an application context, and adds commands."""

import asyncio
from collections.abc import Callable
from typing import Any

import quart
from quart.cli import ScriptInfo

from tenure.app.tenure import Tenure
from tenure.definition.context import Context
from tenure.integrations.job_api.lifecycle import open_app
from tenure.integrations.pallets.application import no_application
from tenure.integrations.pallets.commands import tenure_command
from tenure.integrations.pallets.configuration import configure_and_claim


class QuartTenure:
    """Joins a Tenure app to Quart applications, one or several: `QuartTenure(jobs).init_app(web)`.

    Make it before other middleware of the app, which then runs inside the application context. Plain functions get no
    context, because Quart's needs an event loop. A worker does not call `before_serving` or `after_serving`.
    """

    def __init__(self, app: Tenure, web: quart.Quart | None = None, *, key: str = "tenure") -> None:
        """`key` is the name in `extensions`, of the settings (`TENURE_URL`) and of the command `quart tenure`."""
        self.app = app
        self.key = key
        self._web: quart.Quart | None = None
        app.middleware(self._in_app_context)
        if web is not None:
            self.init_app(web)

    def init_app(self, web: quart.Quart) -> None:
        """Give the Tenure app the settings from the configuration of this application, and serve it."""
        configure_and_claim(web, self.app, self.key)
        self._web = web
        web.before_serving(self._open)
        web.after_serving(self._close)
        web.cli.add_command(tenure_command(self.key, "quart", ScriptInfo))

    async def _open(self) -> None:
        await open_app(self.app)

    async def _close(self) -> None:
        await asyncio.to_thread(self.app.close)

    async def _in_app_context(self, ctx: Context, proceed: Callable[[], Any]) -> Any:
        async with self._application(ctx).app_context():
            return await proceed()

    def _application(self, ctx: Context) -> quart.Quart:
        if quart.has_app_context() and quart.current_app.extensions.get(self.key) is self.app:
            active: quart.Quart = quart.current_app._get_current_object()  # type: ignore[attr-defined]
            return active
        if self._web is not None:
            return self._web
        raise no_application(ctx, "quart")
