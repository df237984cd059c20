"""Heart: tells a supervisor, systemd or our own, when the worker is ready, how it fares, and that its loops go on."""

import threading
from collections.abc import Callable
from typing import Protocol, Self

from tenure.worker.notices import Notifier

_LOOK = 0.05
_PACE = 5.0


class Living(Protocol):
    """Something with loops that must go round."""

    @property
    def ready(self) -> threading.Event: ...

    def silence(self) -> float: ...


class Heart:
    """Beats twice in the time that the watchdog allows, unless a loop of the worker has stood still for that long."""

    def __init__(self, worker: Living, notifier: Notifier, grace: float, status: Callable[[], str]) -> None:
        """`status` tells in words how it fares."""
        self._worker = worker
        self._status = status
        self._grace = grace
        self._notifier = notifier
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-heart", daemon=True)

    def __enter__(self) -> Self:
        if self._notifier:
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._notifier:
            self._ended.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._worker.ready.wait(_LOOK):
            if self._ended.is_set():
                return
        self._notifier.tell(READY=1, X_STOP_GRACE=self._grace, STATUS=self._status())
        watchdog = self._notifier.watchdog
        while True:
            if watchdog and self._worker.silence() < watchdog:
                self._notifier.tell(WATCHDOG=1)
            if self._ended.wait(min(_PACE, watchdog / 2) if watchdog else _PACE):
                return
            self._notifier.tell(STATUS=self._status())
