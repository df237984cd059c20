"""Reports to the supervisor (systemd or Tenure's own) and to the probe file: ready, status, and that the loops run."""

import threading
import time
from collections.abc import Callable
from typing import Self

from tenure.cli.process.signals import Service
from tenure.supervisor.probe_file import PROGRESS_SECONDS, StateNotifier

_READY_POLL_SECONDS = 0.05
_STATUS_INTERVAL = 5.0


class WatchdogReporter:
    """Reports twice per watchdog timeout, unless a loop of the service has not moved for that long."""

    def __init__(self, service: Service, notifier: StateNotifier, grace: float, status: Callable[[], str]) -> None:
        """`status` returns one line that describes the service."""
        self._service = service
        self._status = status
        self._grace = grace
        self._notifier = notifier
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-watchdog", daemon=True)

    def __enter__(self) -> Self:
        if self._notifier:
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._notifier:
            self._ended.set()
            self._thread.join()

    def _run(self) -> None:
        report_at = 0.0
        while not self._service.ready.wait(_READY_POLL_SECONDS):
            if self._ended.is_set():
                return
            if time.monotonic() >= report_at and self._service.silence() < PROGRESS_SECONDS:
                report_at = time.monotonic() + _STATUS_INTERVAL
                self._notifier.report_progress()
        self._notifier.notify(READY=1, X_STOP_GRACE=self._grace, STATUS=self._status())
        timeout = self._notifier.watchdog
        while True:
            if timeout and self._service.silence() < timeout:
                self._notifier.notify(WATCHDOG=1)
            if self._ended.wait(min(_STATUS_INTERVAL, timeout / 2) if timeout else _STATUS_INTERVAL):
                return
            self._notifier.notify(STATUS=self._status())
