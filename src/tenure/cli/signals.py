"""What signals mean to a worker: stop, drain or reload."""

import os
import signal
import sys
import time
from collections import deque
from types import FrameType
from typing import Protocol, Self

from tenure.cli.grace import Grace
from tenure.worker.notices import Notifier
from tenure.worker.supervisor import STOPPING
from tenure.worker.wakeups import is_left_out, terminal_is_gone

HEARD = (*STOPPING, signal.SIGUSR1, signal.SIGHUP)
_TO_SETTLE = 5.0  # seconds that a supervisor should allow after the grace


class Told(Protocol):
    """What can be told to stop, finish or begin anew; from a signal handler."""

    def stop(self) -> None: ...

    def stop_now(self) -> None: ...

    def drain(self) -> None: ...

    def reload(self) -> bool: ...


class Signals:
    """Handled in the main thread, where inline jobs run: that is how one can be interrupted.

    `told` says that the worker was told to end, and should not start over.
    """

    def __init__(self, worker: Told, grace: float, notifier: Notifier, *, bounded: bool, quiet: bool) -> None:
        self._worker = worker
        self._seconds = grace
        self._grace = Grace(grace)
        self._notifier = notifier
        self._bounded = bounded
        self._quiet = quiet
        self._stops = 0
        self._heard: deque[int] = deque()
        self._is_hearing = False
        self.told = False

    def __enter__(self) -> Self:
        self._grace.start(HEARD)
        for number in HEARD:
            if not is_left_out(number):
                signal.signal(number, self._hear)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """The handlers stay: a late signal must not spoil the end of a graceful stop."""
        self._grace.end()

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        """One after the other: a signal may come while the one before it holds a lock that it needs too."""
        self._heard.append(number)
        if self._is_hearing:
            return
        self._is_hearing = True
        try:
            while self._heard:
                self._heed(self._heard.popleft())
        finally:
            self._is_hearing = False

    def _heed(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._drain()
        elif number == signal.SIGHUP and not terminal_is_gone():
            self._reload()
        else:
            self._stop(at_once=number == signal.SIGQUIT)

    def _stop(self, *, at_once: bool) -> None:
        self.told = True
        self._stops += 1
        if at_once or self._stops > 1:
            self._grace.hurry()
            self._worker.stop_now()  # may raise into the running job: nothing may follow
            return
        self._grace.begin()
        self._worker.stop()
        self._notifier.tell(STOPPING=1, EXTEND_TIMEOUT_USEC=round((self._seconds + _TO_SETTLE) * 1e6))
        self._say(
            f"Stopping once the running job is done, or in {self._seconds:g} s; a second signal hands it back at once."
        )

    def _drain(self) -> None:
        self.told = True
        self._worker.drain()
        self._say("Draining: stopping once nothing is ready.")

    def _reload(self) -> None:
        if self._worker.reload():
            self._notifier.tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
            self._notifier.tell(READY=1)  # it never stops working: fresh children take over one by one
            self._say("Reloading: fresh child processes take over.")
        elif self._bounded:
            self._say("A worker that ends by itself is not reloaded.")
        else:
            self._worker.stop()
            self._say("Reloading once the running job is done.")

    def _say(self, text: str) -> None:
        if not self._quiet:
            os.write(sys.stderr.fileno(), f"{text}\n".encode())  # not print: a handler may interrupt a print
