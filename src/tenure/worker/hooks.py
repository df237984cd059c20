"""QueueHooks: calls `setup` and `refresh` of the queue classes a worker serves."""

import logging
import threading
from collections.abc import Sequence

from tenure.definition.queues import QueueClass

logger = logging.getLogger(__name__)


class QueueHooks:
    """`setup` once at the start, `refresh` every interval; an error is logged and stops nothing."""

    def __init__(self, classes: Sequence[QueueClass], worker: str, interval: float) -> None:
        self._classes = classes
        self._worker = worker
        self._interval = interval
        self._stopping = threading.Event()

    def run(self) -> None:
        self._call("setup")
        while not self._stopping.wait(self._interval):
            self._call("refresh")

    def stop(self) -> None:
        self._stopping.set()

    def _call(self, name: str) -> None:
        for queue in self._classes:
            hook = getattr(queue, name, None)
            if hook is None:
                continue
            try:
                hook(self._worker)
            except Exception:
                logger.exception("%s of queue %r failed; the worker goes on", name, queue.name)
