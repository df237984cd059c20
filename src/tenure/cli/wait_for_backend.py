"""Wait for the backend: a worker or scheduler that starts while its server is down tries again until it answers."""

import logging
import os
import time

from tenure.app import Tenure
from tenure.errors import BackendUnavailable
from tenure.supervisor.sd_notify import SystemdNotifier
from tenure.worker.roles import GrowingDelay

logger = logging.getLogger(__name__)

_WARNING_INTERVAL = 60.0
_START_EXTENSION_MICROSECONDS = 30_000_000  # without it systemd would end a start that takes long


def wait_for_backend(app: Tenure) -> None:
    """Open the backend; retry while the server does not answer. A file that cannot be opened is an error at once."""
    delays, warn_at = GrowingDelay(first=0.25), 0.0
    while True:
        try:
            app.channel()
        except BackendUnavailable as error:
            if app.settings.url.startswith("sqlite:"):
                raise
            if time.monotonic() >= warn_at:
                warn_at = time.monotonic() + _WARNING_INTERVAL
                logger.warning("the backend cannot be reached; this process waits for it: %s", error)
            SystemdNotifier(os.environ).notify(
                STATUS=f"waiting for the backend: {error}", EXTEND_TIMEOUT_USEC=_START_EXTENSION_MICROSECONDS
            )
            time.sleep(delays.next())
        else:
            return
