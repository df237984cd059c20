"""Deadline: stops Python code in the main thread when its time is up, by SIGALRM.

It cannot stop one long call into C; it fires again every second, for handlers that swallow it once.
Outside the main thread, and where there is no SIGALRM, deadlines cannot be enforced.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tenure.errors import DeadlineExceeded, Interrupt, StopNow

_AGAIN = 1.0


class Deadline:
    """Installed once around a runner's life, armed around each attempt that has a timeout."""

    def __init__(self) -> None:
        self._running = False
        self.enforced = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            yield
            return
        previous = signal.signal(signal.SIGALRM, self._fire)
        self.enforced = True
        try:
            yield
        finally:
            self.enforced = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)

    def arm(self, seconds: float | None) -> None:
        self._running = True
        if seconds and self.enforced:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)

    def disarm(self, seconds: float | None) -> None:
        self._running = False
        if seconds and self.enforced:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def stop_now(self) -> None:
        """From a signal handler in the main thread: interrupt the attempt that is running, if any."""
        self._interrupt(StopNow("the worker was told to stop at once"))

    def _fire(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a signal handler
        self._interrupt(DeadlineExceeded("the attempt ran past its timeout"))

    def _interrupt(self, interrupt: Interrupt) -> None:
        if self._running:  # an alarm that comes after the handler returned must not spoil its success
            raise interrupt
