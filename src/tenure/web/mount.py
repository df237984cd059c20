"""AsgiDashboard: the dashboard of an app, to be mounted in another application or served by uvicorn."""

from collections.abc import Iterable

from starlette.types import Receive, Scope, Send

from tenure.app.dashboard.core import Dashboard
from tenure.app.tenure import Tenure
from tenure.web.application import WebDashboard
from tenure.web.security import origins
from tenure.web.sign_in import Hook, SignIn
from tenure.web.users import Users, users_of


class AsgiDashboard:
    """An ASGI application. It opens nothing before the first request, so a server may fork after it was made."""

    def __init__(
        self,
        app: Tenure,
        access: Hook | None = None,
        trusted_origins: Iterable[str] = (),
        *,
        users: Users | None = None,
        has_handlers: bool = True,
        cookie: str = "tenure_session",
    ) -> None:
        self.dashboard = Dashboard(app, has_handlers=has_handlers)
        trusted = origins([*app.settings.dashboard.trusted_origins, *trusted_origins])
        gate = SignIn(self.dashboard, users_of(app) if users is None else users, access, cookie=cookie)
        self.web = WebDashboard(self.dashboard, gate, trusted)
        self._application = self.web.application()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)

    def close(self) -> None:
        """Wait for running actions, and stop reading figures; the app stays open."""
        self.dashboard.close()
