"""The cancel watcher: stops running jobs that a user cancelled, and writes the progress of running jobs."""

import logging
import threading
from collections.abc import Callable, Sequence

from tenure.backends.messages import Lease
from tenure.backends.parts import JobControl
from tenure.definition.context import Progress
from tenure.errors import BackendError
from tenure.worker.inbox import HeldLeases
from tenure.worker.roles import OutageLog

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5  # so that a user sees progress and a cancellation within a second


class CancelWatcher:
    """One query per poll, for all held jobs; writes only progress that has changed."""

    def __init__(
        self,
        backend: JobControl,
        held: HeldLeases,
        cancel: Callable[[Sequence[Lease]], None],
        progress: Callable[[], Sequence[tuple[Lease, Progress]]],
        outage: OutageLog | None = None,
    ) -> None:
        """`cancel` stops these jobs and is called at each poll until they are no longer held."""
        self._backend = backend
        self._held = held
        self._cancel = cancel
        self._progress = progress
        self._outage = outage or OutageLog()
        self._written: dict[tuple[str, int], Progress] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            try:
                self.poll()
            except BackendError as error:
                self._outage.failed(logger, "checking for cancelled jobs", error)

    def stop(self) -> None:
        self._stopping.set()

    def poll(self) -> None:
        leases = self._held.leases()
        if not leases:
            return
        cancelled = self._backend.cancel_requested(leases)
        if cancelled:
            ids = ", ".join(lease.id for lease in cancelled)
            logger.info("%d running jobs were cancelled: %s", len(cancelled), ids)
            self._cancel(cancelled)
        self._write_progress()

    def _write_progress(self) -> None:
        current = {(lease.id, lease.fence): (lease, progress) for lease, progress in self._progress()}
        changed = [item for key, item in current.items() if self._written.get(key) != item[1]]
        if changed:
            self._backend.save_progress(changed)
        self._written = {key: progress for key, (_, progress) in current.items()}
