"""Presence: tells the backend every few seconds, also while jobs run, that this worker lives and what it does."""

import logging
import threading
from collections.abc import Callable

from tenure.backends.upkeep import Roster, WorkerRecord
from tenure.errors import BackendError

logger = logging.getLogger(__name__)

EVERY = 5.0
FORGOTTEN_AFTER = 30.0  # several heartbeats: one slow write is no death


class Presence:
    """A role of its own, so that neither jobs nor leasing can hold it up."""

    def __init__(self, roster: Roster, describe: Callable[[], WorkerRecord]) -> None:
        self._roster = roster
        self._describe = describe
        self._stopping = threading.Event()

    def run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            self._try(lambda: self._roster.greet(self._describe(), FORGOTTEN_AFTER))
            pause = EVERY
        self._try(lambda: self._roster.part(self._describe().id))

    def stop(self) -> None:
        self._stopping.set()

    def _try(self, say: Callable[[], None]) -> None:
        try:
            say()
        except BackendError as error:
            logger.warning("the worker could not be registered: %s", error)
