"""StopSignals: lets SIGTERM and SIGINT stop a worker that a script runs; `tenure work` has its own handlers."""

import signal
import threading
from collections import deque
from types import FrameType
from typing import Any, Protocol, Self

from tenure.errors import SettingsError

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stoppable(Protocol):
    """The methods of a worker that the signals call."""

    def stop(self) -> None: ...

    def stop_now(self) -> None: ...


class StopSignals:
    """While it is entered, the first signal lets running jobs finish, and a second one interrupts them.

    At the end, the handlers that were there before are back.
    """

    def __init__(self, worker: Stoppable) -> None:
        self._worker = worker
        self._received: deque[int] = deque()
        self._is_handling = False
        self._stops = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            raise SettingsError(
                "run(signals=True) works in the main thread only, because Python handles signals there; "
                "call worker.stop() from your own handler"
            )
        self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        """Handle signals one after the other: a new one may arrive while the last one holds a lock that it needs."""
        self._received.append(number)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._received:
                self._received.popleft()
                self._stops += 1
                (self._worker.stop if self._stops == 1 else self._worker.stop_now)()
        finally:
            self._is_handling = False
