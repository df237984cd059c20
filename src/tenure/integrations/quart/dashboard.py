"""The dashboard at a path of a Quart application."""

import asyncio
from typing import TYPE_CHECKING, Any

import quart

if TYPE_CHECKING:
    from tenure.web.mount import AsgiDashboard


def mount_dashboard(web: quart.Quart, dashboard: "AsgiDashboard", path: str = "/tenure") -> None:
    """Serve the dashboard that `tenure.web.asgi` made below a path, and end its threads with the server.

    Quart does not see these requests: the access hook gets a request of Starlette, with headers and cookies.
    """
    inner, prefix = web.asgi_app, path.rstrip("/")

    async def dispatch(scope: Any, receive: Any, send: Any) -> None:
        root = scope.get("root_path", "") + prefix
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{root}/"):
            await dashboard({**scope, "root_path": root}, receive, send)
        else:
            await inner(scope, receive, send)

    async def close() -> None:
        await asyncio.to_thread(dashboard.close)

    web.asgi_app = dispatch  # type: ignore[method-assign]
    web.after_serving(close)
