"""Deadlines: raise inside a running handler when its time is up, or when somebody cancels its job.

Soft, because code in C does not hear it.

In the main thread a signal does it, in other threads an exception that the interpreter delivers.
Both fire again every second, for handlers that swallow the first.
"""

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from types import FrameType
from typing import Protocol

from tenure.definition.link import Link, LocalLink
from tenure.errors import Cancelled, DeadlineExceeded, Interrupt, StopNow

_AGAIN = 1.0
_LOOK = 0.02
_EARLY = 0.001  # the kernel counts in microseconds, and we in floats
_NOBODY = LocalLink()


def _nothing() -> None:
    """For code that needs no waking."""


class Deadline(Protocol):
    """Installed once around a runner's life, armed around each attempt."""

    def installed(self) -> AbstractContextManager[None]: ...

    def arm(self, seconds: float | None, link: Link = _NOBODY, wake: Callable[[], None] = _nothing) -> None:
        """From now on interrupt what runs here, after so long or when its link says so.

        `wake` has code that waits in C come back to Python.
        """
        ...

    def disarm(self) -> None: ...

    def look(self) -> None:
        """The link may have changed."""
        ...

    def stop_now(self) -> None:
        """Interrupt the attempt that is running, if any."""
        ...


class AlarmDeadline:
    """By SIGALRM, in the main thread; elsewhere, and where there is no such signal, nothing is enforced."""

    def __init__(self) -> None:
        self._running = False
        self._armed = False
        self._rang = False
        self._ringing = False
        self._link: Link = _NOBODY
        self._expires = 0.0
        self._thread = 0
        self._others: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._previous: object = None
        self.enforced = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            yield
            return
        previous = self._previous = signal.signal(signal.SIGALRM, self._fire)
        self._thread = threading.get_ident()
        self.enforced = True
        try:
            yield
        finally:
            self.disarm()
            self.enforced = False
            signal.signal(signal.SIGALRM, previous)

    def arm(self, seconds: float | None, link: Link = _NOBODY, wake: Callable[[], None] = _nothing) -> None:  # noqa: ARG002 - a signal wakes
        self._link = link
        self._running = True
        if self._rang:
            self._rang = False
            self._heed()
        if seconds and self.enforced:
            self._armed = True
            since = time.monotonic()
            self._expires = since + seconds - _EARLY
            self._others = (*signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN), since)

    def disarm(self) -> None:
        """An alarm that somebody else had set goes on where it was."""
        self._running = False
        if self._armed:
            left, interval, since = self._others
            signal.setitimer(signal.ITIMER_REAL, max(left - time.monotonic() + since, 0.001) if left else 0, interval)
            self._armed = False  # only now: an alarm of ours that came too late is still known as ours

    def look(self) -> None:
        """From any thread: ring, and what runs in the main one hears it."""
        if self.enforced:
            self._ringing = True
            signal.pthread_kill(self._thread, signal.SIGALRM)

    def stop_now(self) -> None:
        """For signal handlers: it raises here, in the main thread."""
        self._interrupt(StopNow("the worker was told to stop at once"))

    def _fire(self, signum: int, frame: FrameType | None) -> None:
        ours, self._ringing = self._ringing, False
        self._rang = not self._running  # what is about to run looks by itself
        self._heed()
        if self._armed:
            if time.monotonic() >= self._expires:  # else it was rung for a job that has ended
                self._interrupt(DeadlineExceeded("the attempt ran past its timeout"))
        elif callable(self._previous) and not ours:
            self._previous(signum, frame)  # somebody else's alarm

    def _heed(self) -> None:
        if self._running and self._link.cancelled:
            raise Cancelled

    def _interrupt(self, interrupt: Interrupt) -> None:
        if self._running:  # an alarm that comes after the handler returned must not spoil its success
            raise interrupt


class ThreadDeadline:
    """By an asynchronous exception, in the thread that entered; a `Watchdog` looks at the time."""

    def __init__(self, watchdog: "Watchdog") -> None:
        self._watchdog = watchdog
        self._thread = 0
        self._lock = threading.Lock()
        self._expires: float | None = None
        self._link: Link = _NOBODY
        self._wake = _nothing
        self._fired = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        self._watchdog.watch(self)
        try:
            yield
        finally:
            self._watchdog.forget(self)

    def arm(self, seconds: float | None, link: Link = _NOBODY, wake: Callable[[], None] = _nothing) -> None:
        with self._lock:
            self._link, self._wake = link, wake
            self._expires = time.monotonic() + seconds if seconds else inf

    def disarm(self) -> None:
        with self._lock:
            self._expires = None
            fired, self._fired = self._fired, False
        if fired:
            _absorb()

    def look(self) -> None:
        """The watchdog looks all the time."""

    def stop_now(self) -> None:
        """The parent kills the process instead."""

    def check(self, now: float) -> None:
        """Called by the watchdog: fire when it is time, and again a second later."""
        with self._lock:
            if self._expires is None:
                return
            if now >= self._expires or (not self._fired and self._link.cancelled):
                self._expires = now + _AGAIN
                self._fired = True
                raise_in(self._thread, Cancelled if self._link.cancelled else DeadlineExceeded)
                self._wake()


class Watchdog:
    """One thread that looks at the deadlines of all the others."""

    def __init__(self) -> None:
        self._deadlines: set[ThreadDeadline] = set()
        threading.Thread(target=self._run, name="tenure-watchdog", daemon=True).start()

    def watch(self, deadline: ThreadDeadline) -> None:
        self._deadlines = self._deadlines | {deadline}

    def forget(self, deadline: ThreadDeadline) -> None:
        self._deadlines = self._deadlines - {deadline}

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK)
            now = time.monotonic()
            for deadline in self._deadlines:
                deadline.check(now)


_watchdogs: list[Watchdog] = []


def deadline_here() -> Deadline:
    """What can interrupt an attempt in this thread; the other threads of a process share one watchdog."""
    if threading.current_thread() is threading.main_thread():
        return AlarmDeadline()
    if not _watchdogs:
        _watchdogs.append(Watchdog())
    return ThreadDeadline(_watchdogs[0])


def raise_in(thread: int, interrupt: type[Interrupt]) -> None:
    """Have this raised in another thread as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(interrupt))


def _absorb() -> None:
    """Let an exception that is under way but not delivered land here, so that it does not hit the next job.

    Taking it back would leave the interpreter's signal set: every loop a tenth slower, and endless under a tracer.
    """
    try:
        for _ in range(100):  # it is looked for whenever a loop begins again
            pass
    except Interrupt:
        return
