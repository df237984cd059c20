"""TenurePlugin: opens and closes a Tenure app with a Litestar application, and provides it to handlers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from litestar import Litestar, asgi
from litestar.config.app import AppConfig
from litestar.di import Provide
from litestar.plugins import InitPlugin

from tenure.app.tenure import Tenure
from tenure.errors import SettingsError
from tenure.integrations.job_api.endpoints import Authorize
from tenure.integrations.job_api.lifecycle import close_dashboards, open_app
from tenure.integrations.litestar.router import jobs_router

if TYPE_CHECKING:
    from tenure.web.mount import AsgiDashboard


class TenurePlugin(InitPlugin):
    """`Litestar(plugins=[TenurePlugin(jobs)])`: handlers take `tenure: NamedDependency[Tenure]`.

    With `authorize`, the routes of `jobs_router` are added; with `dashboard=web.asgi(jobs, access)`, the dashboard.
    """

    def __init__(
        self,
        app: Tenure,
        *,
        authorize: Authorize | None = None,
        path: str = "/jobs",
        dashboard: "AsgiDashboard | None" = None,
        dashboard_path: str = "/tenure",
        key: str = "tenure",
    ) -> None:
        """`key` names the dependency and the member of the state; two Tenure apps need two keys."""
        self._app = app
        self._authorize = authorize
        self._path = path
        self._dashboard = dashboard
        self._dashboard_path = dashboard_path
        self._key = key

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Called by Litestar; opens nothing yet."""
        if self._key in app_config.dependencies:
            raise SettingsError(
                f"this application already has a dependency {self._key!r}: give each TenurePlugin a key of its own, "
                'for example key="reports"'
            )
        app_config.dependencies[self._key] = Provide(self._provide, sync_to_thread=False)
        app_config.signature_namespace["Tenure"] = Tenure
        app_config.state[self._key] = self._app
        if self._authorize is not None:
            app_config.route_handlers.append(jobs_router(self._app, authorize=self._authorize, path=self._path))
        if self._dashboard is not None:
            mounted = asgi(self._dashboard_path, is_mount=True, copy_scope=True)(self._dashboard)
            app_config.route_handlers.append(mounted)
        app_config.lifespan = [self._running, *app_config.lifespan]
        return app_config

    def _provide(self) -> Tenure:
        return self._app

    @asynccontextmanager
    async def _running(self, _web: Litestar) -> AsyncIterator[None]:
        await open_app(self._app)
        try:
            yield
        finally:
            await asyncio.to_thread(close_dashboards, [self._dashboard])
            await asyncio.to_thread(self._app.close)
