"""The lifespan of a Starlette or FastAPI application that opens and closes a Tenure app; it composes with another."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from tenure.app.tenure import Tenure
from tenure.errors import SettingsError
from tenure.integrations.job_api.lifecycle import close_dashboards, open_app

S = TypeVar("S", bound=Starlette)
Lifespan = Callable[[S], AbstractAsyncContextManager[Mapping[str, Any] | None]]


def tenure_lifespan(
    app: Tenure, lifespan: Lifespan[S] | None = None, *, key: str = "tenure"
) -> Callable[[S], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Open the backend of the app when the server starts, around a lifespan of your own, and close it at the end.

    The state that your lifespan yields is kept. The app is in `request.state` and `request.app.state` under the `key`;
    two Tenure apps in one web application need two keys. Dashboards that are mounted in the application are closed too.
    """

    @asynccontextmanager
    async def running(web: S) -> AsyncIterator[Mapping[str, Any]]:
        check_key(getattr(web.state, key, app), app, key)
        await open_app(app)
        setattr(web.state, key, app)
        try:
            if lifespan is None:
                yield {key: app}
                return
            async with lifespan(web) as state:
                yield {**(state or {}), key: app}
        finally:
            await asyncio.to_thread(_close, app, web)

    return running


def tenure_of(connection: HTTPConnection, key: str = "tenure") -> Tenure:
    """The Tenure app of the application that serves this request, also in an application that is mounted in it."""
    found = connection.scope.get("state", {}).get(key) or getattr(connection.app.state, key, None)
    if not isinstance(found, Tenure):
        raise SettingsError(
            f"this application has no Tenure app under {key!r}, or its lifespan did not run: give "
            "tenure_lifespan(...) to the outermost application, and in tests use the client in a with block"
        )
    return found


def check_key(present: Any, app: Tenure, key: str) -> None:
    """Refuse to hide another Tenure app."""
    if present is not app:
        raise SettingsError(
            f"this web application already has something else under {key!r}: give each Tenure app a key of its own, "
            'for example key="reports"'
        )


def _close(app: Tenure, web: Starlette) -> None:
    """Starlette does not run the lifespan of a mounted application, so its dashboard would read figures for ever."""
    close_dashboards([route.app for route in web.routes if isinstance(route, Mount)])
    app.close()
