"""The gate: which queues may be leased from; looked at once a second, so that a paused queue costs nothing."""

import logging
import time
from collections.abc import Sequence

from tenure.errors import BackendError
from tenure.guards.pause import paused
from tenure.guards.store import Store

logger = logging.getLogger(__name__)

EVERY = 1.0


class Gate:
    """Shared by the lanes of a worker, each of which asks for its own queues."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shut: dict[str, bool] = {}
        self._look_at: dict[str, float] = {}

    def open(self, queues: list[str]) -> list[str]:
        """Those of these that are not paused; when the store does not answer, what it said last."""
        now = time.monotonic()
        if any(self._look_at.get(queue, 0.0) <= now for queue in queues):
            self._look(queues)
            self._look_at.update(dict.fromkeys(queues, now + EVERY))
        if not any(map(self._shut.get, queues)):
            return queues
        return [queue for queue in queues if not self._shut.get(queue)]

    def _look(self, queues: Sequence[str]) -> None:
        try:
            shut = paused(self._store, queues)
        except BackendError as error:
            logger.warning("whether queues are paused cannot be read, it stays as it was: %s", error)
            return
        for queue in queues:
            if (queue in shut) != self._shut.get(queue, False):
                logger.info("queue %r is %s", queue, "paused" if queue in shut else "resumed")
            self._shut[queue] = queue in shut
