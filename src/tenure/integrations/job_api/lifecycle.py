"""Opens what a web server needs when it starts, and closes it, without blocking its event loop."""

import asyncio
import logging
import sys
from collections.abc import Iterable

from tenure.app.tenure import Tenure
from tenure.errors import BackendUnavailable

logger = logging.getLogger(__name__)


async def open_app(app: Tenure) -> None:
    """Open the backend in a thread; a server that is down does not keep the web server from starting."""
    await asyncio.to_thread(open_app_now, app)


def open_app_now(app: Tenure) -> None:
    try:
        app.open_backend()
    except BackendUnavailable as error:
        logger.warning("the backend of the jobs cannot be reached; it will be opened at its first use: %s", error)


def close_dashboards(mounted: Iterable[object]) -> None:
    """End the threads of those of these applications that are dashboards; the server is about to end."""
    if "tenure.web.mount" not in sys.modules:  # imported only by an application that has a dashboard
        return
    from tenure.web.mount import AsgiDashboard

    for each in mounted:
        if isinstance(each, AsgiDashboard):
            each.close()
