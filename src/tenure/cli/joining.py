"""Joining: a worker or a scheduler that starts while its server is down waits for it."""

import logging
import os
import time

from tenure.app import Tenure
from tenure.errors import BackendUnavailable
from tenure.worker.notices import Notifier
from tenure.worker.pauses import Pauses

logger = logging.getLogger(__name__)

_REMINDER = 60.0
_EXTENSION = 30_000_000  # µs: systemd would give up on a start that takes long


def join(app: Tenure) -> None:
    """Open the backend; a server that does not answer is asked again, a file that cannot be opened is an error."""
    pauses, remind_at = Pauses(first=0.25), 0.0
    while True:
        try:
            app.channel()
        except BackendUnavailable as error:
            if app.settings.url.startswith("sqlite:"):
                raise
            if time.monotonic() >= remind_at:
                remind_at = time.monotonic() + _REMINDER
                logger.warning("the backend cannot be reached, and this process waits for it: %s", error)
            Notifier(os.environ).tell(STATUS=f"waiting for the backend: {error}", EXTEND_TIMEOUT_USEC=_EXTENSION)
            time.sleep(pauses.longer())
        else:
            return
