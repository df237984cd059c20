"""The timekeeper: has a scheduler beat on time, through outages and jumps of the clock, until it is told to stop."""

import logging
import threading
import time

from tenure.cron.inline import Inline
from tenure.cron.scheduler import Scheduler
from tenure.errors import BackendError

logger = logging.getLogger(__name__)

_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
_SOONEST = 0.001


class Timekeeper:
    """A role: beside a worker, or alone as `tenure cron work`."""

    def __init__(self, scheduler: Scheduler, inline: Inline) -> None:
        self._scheduler = scheduler
        self._inline = inline
        self._stopping = threading.Event()
        self._until = 0.0
        self._beaten = time.monotonic()
        self.ready = threading.Event()

    def run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            pause, failures = self._beat(failures)
            self._stopping.wait(max(_SOONEST, pause))
        self._inline.finish(lambda: self._until)

    def stop(self, grace: float = 5.0) -> None:
        """No more beats; what runs inline may take so long to end, or less when told again."""
        self._until = time.monotonic() + grace
        self._stopping.set()

    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._beaten

    def _beat(self, failures: int) -> tuple[float, int]:
        try:
            pause = self._scheduler.beat()
        except BackendError as error:
            logger.warning("keeping the schedules failed, trying again: %s", error)
            return _PAUSES[min(failures, len(_PAUSES) - 1)], failures + 1
        finally:
            self._beaten = time.monotonic()
        self.ready.set()
        return pause, 0
