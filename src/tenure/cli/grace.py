"""Grace: after a first signal to stop, the second comes by itself when the time is up."""

import logging
import queue
import signal
import threading
from collections.abc import Iterable

logger = logging.getLogger(__name__)

_AGAIN = 1.0


class Grace:
    """A thread that sends the main thread SIGTERM: only there can a job be interrupted, even in the midst of a sleep.

    It does so again every second, because a job may swallow the first, or begin a moment after it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = min(seconds, threading.TIMEOUT_MAX)
        self._words: queue.SimpleQueue[None] = queue.SimpleQueue()  # safe in signal handlers, which an event is not
        self._ended = threading.Event()

    def start(self, heard: Iterable[signal.Signals]) -> None:
        """These signals are for the main thread: should it block them for a moment, they wait."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
        threading.Thread(target=self._run, name="tenure-grace", daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def begin(self) -> None:
        """The time counts from now; safe in a signal handler, as `hurry` is."""
        self._words.put(None)

    def hurry(self) -> None:
        """The job is being interrupted already: only see to it that it hears."""
        self.begin()
        self.begin()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        self._words.get()
        try:
            self._words.get(timeout=self._seconds)
        except queue.Empty:
            if not self._ended.is_set():
                logger.warning("the stop grace of %g s is over: what still runs is handed back", self._seconds)
                self._interrupt()
        while not self._ended.wait(_AGAIN):
            self._interrupt()

    def _interrupt(self) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
