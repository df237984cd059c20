"""StopSignals: the first SIGTERM or SIGINT lets the running job finish, the second hands it back at once."""

import os
import signal
import sys
from types import FrameType
from typing import Self

from tenure.worker.worker import Worker

STOPPING = (signal.SIGTERM, signal.SIGINT)
_TOLD = b"Stopping once the running job is done; a second signal hands it back at once.\n"


class StopSignals:
    """Handled in the main thread, where the jobs run: that is how the second signal can interrupt one."""

    def __init__(self, worker: Worker, quiet: bool) -> None:
        self._worker = worker
        self._quiet = quiet
        self._heard = 0

    def __enter__(self) -> Self:
        for number in STOPPING:
            signal.signal(number, self._hear)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """The handlers stay: a late signal must not spoil the end of a graceful stop."""

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        self._heard += 1
        if self._heard > 1:
            self._worker.stop_now()  # may raise into the running job: nothing may follow
            return
        self._worker.stop()
        if not self._quiet:
            os.write(sys.stderr.fileno(), _TOLD)  # not print: a handler may interrupt a print
