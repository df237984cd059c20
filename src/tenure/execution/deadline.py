"""Deadlines: raise an exception inside a running handler when its time is up or its job is cancelled.

They are soft: code in C does not notice them. For that case the parent kills the child (`parent/stop_rules.py`).
In the main thread SIGALRM raises the exception, in other threads the interpreter does.
Both raise again every second, for handlers that swallow the first exception.
"""

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import inf
from types import FrameType

from tenure.definition.context import Link, LocalLink
from tenure.errors import Cancelled, DeadlineExceeded, Interrupt, StopNow

_REPEAT_SECONDS = 1.0
_WATCHDOG_POLL_SECONDS = 0.02
_TIMER_TOLERANCE = 0.001  # seconds: the kernel counts microseconds, this module counts floats
_NO_LINK = LocalLink()


def _no_wake() -> None:
    """For code that the exception itself wakes."""


def deadline_for_this_thread() -> "Deadline":
    """A deadline that can interrupt attempts in the calling thread."""
    if threading.current_thread() is threading.main_thread():
        return AlarmDeadline()
    return ThreadDeadline(_shared_watchdog())


class AlarmDeadline:
    """Interrupts the main thread with SIGALRM. In other threads, or without such a signal, it enforces nothing.

    A deadline is installed once for the life of a runner and armed for each attempt.
    """

    def __init__(self) -> None:
        self._running = False
        self._armed = False
        self._check_on_arm = False
        self._own_signal = False
        self._link: Link = _NO_LINK
        self._expires = 0.0
        self._thread = 0
        self._outer_timer: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._outer_handler: object = None
        self.enforced = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
            yield
            return
        previous = self._outer_handler = signal.signal(signal.SIGALRM, self._on_alarm)
        self._thread = threading.get_ident()
        self.enforced = True
        try:
            yield
        finally:
            self.disarm()
            self.enforced = False
            signal.signal(signal.SIGALRM, previous)

    def arm(self, seconds: float | None, link: Link = _NO_LINK, wake: Callable[[], None] = _no_wake) -> None:  # noqa: ARG002 - a signal wakes
        """Interrupt what runs here after `seconds`, or when the link is cancelled.

        `wake` makes code that waits in C return to Python; a signal needs no such help.
        """
        self._link = link
        self._running = True
        if self._check_on_arm:
            self._check_on_arm = False
            self._raise_if_cancelled()
        if seconds and self.enforced:
            self._armed = True
            since = time.monotonic()
            self._expires = since + seconds - _TIMER_TOLERANCE
            self._outer_timer = (*signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS), since)

    def disarm(self) -> None:
        """Stop the timer. A timer that other code had set before `arm` continues."""
        self._running = False
        if self._armed:
            left, interval, since = self._outer_timer
            signal.setitimer(signal.ITIMER_REAL, max(left - time.monotonic() + since, 0.001) if left else 0, interval)
            self._armed = False  # last: until here, an alarm that comes too late still counts as this timer's

    def deliver_cancel(self) -> None:
        """Check now whether the link of the running attempt is cancelled. May be called from any thread."""
        if self.enforced:
            self._own_signal = True
            signal.pthread_kill(self._thread, signal.SIGALRM)

    def stop_now(self) -> None:
        """For signal handlers: it raises here, in the main thread."""
        self._interrupt(StopNow("the worker stops at once"))

    def _on_alarm(self, signum: int, frame: FrameType | None) -> None:
        own_signal, self._own_signal = self._own_signal, False
        self._check_on_arm = not self._running  # then the next attempt checks its link when it starts
        self._raise_if_cancelled()
        if self._armed:
            if time.monotonic() >= self._expires:  # else the signal was sent for an attempt that has ended
                self._interrupt(DeadlineExceeded("the attempt ran past its timeout"))
        elif callable(self._outer_handler) and not own_signal:
            self._outer_handler(signum, frame)  # the alarm belongs to other code

    def _raise_if_cancelled(self) -> None:
        if self._running and self._link.cancelled:
            raise Cancelled

    def _interrupt(self, interrupt: Interrupt) -> None:
        if self._running:  # an alarm that comes after the handler returned must not spoil its success
            raise interrupt


class ThreadDeadline:
    """Interrupts the thread that entered it with an asynchronous exception; a `Watchdog` checks the time."""

    def __init__(self, watchdog: "Watchdog") -> None:
        self._watchdog = watchdog
        self._thread = 0
        self._lock = threading.Lock()
        self._expires: float | None = None
        self._link: Link = _NO_LINK
        self._wake = _no_wake
        self._fired = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        self._watchdog.watch(self)
        try:
            yield
        finally:
            self._watchdog.forget(self)

    def arm(self, seconds: float | None, link: Link = _NO_LINK, wake: Callable[[], None] = _no_wake) -> None:
        with self._lock:
            self._link, self._wake = link, wake
            self._expires = time.monotonic() + seconds if seconds else inf

    def disarm(self) -> None:
        with self._lock:
            self._expires = None
            fired, self._fired = self._fired, False
        if fired:
            _absorb_pending_interrupt()

    def deliver_cancel(self) -> None:
        """Nothing to do: the watchdog checks the link every 20 ms."""

    def stop_now(self) -> None:
        """Nothing to do: the parent kills the process."""

    def check(self, now: float) -> None:
        """Called by the watchdog: interrupt when it is time, and again a second later."""
        with self._lock:
            if self._expires is None:
                return
            if now >= self._expires or (not self._fired and self._link.cancelled):
                self._expires = now + _REPEAT_SECONDS
                self._fired = True
                raise_in_thread(self._thread, Cancelled if self._link.cancelled else DeadlineExceeded)
                self._wake()


Deadline = AlarmDeadline | ThreadDeadline


class Watchdog:
    """One thread that checks the deadlines of all other threads."""

    def __init__(self) -> None:
        self._deadlines: set[ThreadDeadline] = set()
        threading.Thread(target=self._run, name="tenure-watchdog", daemon=True).start()

    def watch(self, deadline: ThreadDeadline) -> None:
        self._deadlines = self._deadlines | {deadline}

    def forget(self, deadline: ThreadDeadline) -> None:
        self._deadlines = self._deadlines - {deadline}

    def _run(self) -> None:
        while True:
            time.sleep(_WATCHDOG_POLL_SECONDS)
            now = time.monotonic()
            for deadline in self._deadlines:
                deadline.check(now)


@cache
def _shared_watchdog() -> Watchdog:
    """One for all threads of the process."""
    return Watchdog()


def raise_in_thread(thread: int, interrupt: type[Interrupt]) -> None:
    """Raise this in another thread as soon as that thread runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(interrupt))


def _absorb_pending_interrupt() -> None:
    """Let an exception that was requested but not yet raised be raised here, so that it does not hit the next job.

    Withdrawing the request would leave a flag set in the interpreter: every loop would run a tenth slower, and
    would never end under a tracer.
    """
    try:
        for _ in range(100):  # the interpreter checks for the exception whenever a loop starts again
            pass
    except Interrupt:
        return
