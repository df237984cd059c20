"""The janitor: deletes ended jobs and guards past their time, a small chunk at a time, so that nobody waits for it."""

import logging
import threading

from tenure.backends.contract import Backend, Maintained
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError
from tenure.guards.store import Store

logger = logging.getLogger(__name__)

_EVERY = 60.0
_BETWEEN_CHUNKS = 0.1
_CHUNK = 500


class Janitor:
    """Runs beside the roles of a worker; several at once do no harm."""

    def __init__(self, backend: Backend, clock: Clock, retention: dict[str, float], store: Store | None = None) -> None:
        """`retention` is seconds per state; 0 keeps for ever."""
        self._backend = backend
        self._clock = clock
        self._retention = {state: seconds for state, seconds in retention.items() if seconds}
        self._store = store
        self._stopping = threading.Event()

    def run(self) -> None:
        pause = 1.0
        while not self._stopping.wait(pause):
            try:
                pause = _BETWEEN_CHUNKS if self.sweep() else _EVERY
            except BackendError as error:
                logger.warning("trimming history failed, trying again: %s", error)
                pause = _EVERY

    def stop(self) -> None:
        self._stopping.set()

    def sweep(self) -> bool:
        """One chunk per state; True when there may be more."""
        trimmed = [] if self._store is None else [self._store.sweep(_CHUNK)]
        if isinstance(self._backend, Maintained):
            now = self._clock.now()
            trimmed += [
                self._backend.trim(state, now - round(seconds * MICROSECOND), _CHUNK)
                for state, seconds in self._retention.items()
            ]
        return max(trimmed, default=0) == _CHUNK
