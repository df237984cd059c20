"""The steersman: tells running jobs that somebody cancelled them, and the backend how far they are."""

import logging
import threading
from collections.abc import Callable, Sequence

from tenure.backends.asking import Steerable
from tenure.backends.contract import Lease
from tenure.definition.progress import Progress
from tenure.errors import BackendError
from tenure.worker.holdings import Holdings

logger = logging.getLogger(__name__)

_EVERY = 0.5  # what people wait for should show within a second


class Steersman:
    """Looks now and then, whatever the number of jobs; writes only what has changed."""

    def __init__(
        self,
        backend: Steerable,
        holdings: Holdings,
        cancel: Callable[[Sequence[Lease]], None],
        progress: Callable[[], Sequence[tuple[Lease, Progress]]],
    ) -> None:
        """`cancel` stops these, again and again until they are held no longer; `progress` is of what runs."""
        self._backend = backend
        self._holdings = holdings
        self._cancel = cancel
        self._progress = progress
        self._noted: dict[tuple[str, int], Progress] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(_EVERY):
            try:
                self.look()
            except BackendError as error:
                logger.warning("looking for cancelled jobs failed, trying again: %s", error)

    def stop(self) -> None:
        self._stopping.set()

    def look(self) -> None:
        leases = self._holdings.leases()
        if not leases:
            return
        asked = self._backend.asked_to_stop(leases)
        if asked:
            logger.info("%d running jobs were cancelled: %s", len(asked), ", ".join(lease.id for lease in asked))
            self._cancel(asked)
        self._note()

    def _note(self) -> None:
        told = {(lease.id, lease.fence): (lease, progress) for lease, progress in self._progress()}
        changed = [item for key, item in told.items() if self._noted.get(key) != item[1]]
        if changed:
            self._backend.note_progress(changed)
        self._noted = {key: progress for key, (_, progress) in told.items()}
