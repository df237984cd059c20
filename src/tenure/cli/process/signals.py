"""What signals do to a worker or a scheduler: stop it, drain it or reload it.

The first SIGTERM or SIGINT lets the running job finish; the second one, SIGQUIT or the end of the stop grace hands the
job back at once. SIGUSR1 drains, SIGHUP reloads.
"""

import logging
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Literal, Protocol, Self

from tenure.supervisor.probe_file import StateReporter
from tenure.supervisor.signals import STOP_SIGNALS, is_ignored, terminal_was_closed
from tenure.worker.roles import RoleThread
from tenure.worker.worker import Worker

logger = logging.getLogger(__name__)

HANDLED_SIGNALS = (*STOP_SIGNALS, signal.SIGUSR1, signal.SIGHUP)
_SETTLE_SECONDS = 5.0  # time that systemd should allow after the stop grace
_REPEAT_INTERVAL = 1.0


class ServiceLoop(Protocol):
    """What runs until it is stopped: the scheduler, or the relay of outboxes."""

    ready: threading.Event

    def run(self) -> None: ...

    def stop(self, grace: float = ...) -> None: ...

    def silence(self) -> float: ...


class SchedulerService:
    """Runs the scheduler, or another such loop, in its own thread, while the main thread waits for signals."""

    def __init__(self, scheduler: ServiceLoop, grace: float) -> None:
        self._scheduler = scheduler
        self._grace = grace
        # A signal handler may use a SimpleQueue, unlike a threading.Event.
        self._requests: queue.SimpleQueue[Literal["stop", "stop now", "ended"]] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.ready, self.silence = scheduler.ready, scheduler.silence

    def run(self) -> None:
        thread = RoleThread(self._scheduler, self._on_error, on_end=lambda: self._requests.put("ended"))
        thread.start()
        for request in iter(self._requests.get, "ended"):
            self._scheduler.stop(self._grace if request == "stop" else 0.0)
        thread.stop()  # it has ended: a thread that still ran would keep the app alive while the interpreter exits
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._requests.put("stop")

    def stop_now(self) -> None:
        self._requests.put("stop now")

    def drain(self) -> None:
        self.stop()

    def reload(self) -> bool:
        return False

    def _on_error(self, error: BaseException) -> None:
        self._error = error


Service = Worker | SchedulerService
"""What a process controls; signal handlers call `stop`, `stop_now`, `drain` and `reload`."""


class SignalHandlers:
    """Handles signals in the main thread, where inline jobs run: only there can a job be interrupted.

    `stop_requested` says that the process must end and not restart itself.
    """

    def __init__(
        self,
        service: Service,
        grace: float,
        notifier: StateReporter,
        *,
        bounded: bool,
        print_line: Callable[[str], None] | None,
    ) -> None:
        """`print_line` must be safe in a signal handler; without it nothing is printed."""
        self._service = service
        self._grace = grace
        self._timer = StopTimer(grace)
        self._notifier = notifier
        self._bounded = bounded
        self._print_line = print_line
        self._stops = 0
        self._received: deque[int] = deque()
        self._is_handling = False
        self.stop_requested = False

    def __enter__(self) -> Self:
        self._timer.start(HANDLED_SIGNALS)
        for number in HANDLED_SIGNALS:
            if not is_ignored(number):
                signal.signal(number, self._receive)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """The handlers stay installed: a late signal must not kill the process at the end of a graceful stop."""
        self._timer.end()

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        """Handle signals one after the other: a new one may arrive while the last one holds a lock that it needs."""
        self._received.append(number)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._received:
                self._handle(self._received.popleft())
        finally:
            self._is_handling = False

    def _handle(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._drain()
        elif number == signal.SIGHUP and not terminal_was_closed():
            self._reload()
        else:
            self._stop(at_once=number == signal.SIGQUIT)

    def _stop(self, *, at_once: bool) -> None:
        self.stop_requested = True
        self._stops += 1
        if at_once or self._stops > 1:
            self._timer.interrupt_until_end()
            self._service.stop_now()  # may raise into the running job: nothing may follow
            return
        self._timer.begin()
        self._service.stop()
        self._notifier.notify(STOPPING=1, EXTEND_TIMEOUT_USEC=round((self._grace + _SETTLE_SECONDS) * 1e6))
        self._print(
            f"Stopping once the running job is done, or in {self._grace:g} s; a second signal hands it back at once."
        )

    def _drain(self) -> None:
        self.stop_requested = True
        self._service.drain()
        self._print("Draining: stopping once nothing is ready.")

    def _reload(self) -> None:
        if self._service.reload():
            self._notifier.notify(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
            self._notifier.notify(READY=1)  # it works all the time: new children replace the old ones one by one
            self._print("Reloading: fresh child processes take over.")
        elif self._bounded:
            self._print("A worker that ends by itself is not reloaded.")
        else:
            self._service.stop()
            self._print("Reloading once the running job is done.")

    def _print(self, text: str) -> None:
        if self._print_line is not None:
            self._print_line(text)


class StopTimer:
    """A thread that sends SIGTERM to the main thread when the stop grace is over.

    Only the main thread can interrupt a job, even one that sleeps. The timer repeats the signal every second, because
    a job may catch the first one, or start a moment after it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = min(seconds, threading.TIMEOUT_MAX)
        self._steps: queue.SimpleQueue[None] = queue.SimpleQueue()  # safe in signal handlers, unlike threading.Event
        self._ended = threading.Event()

    def start(self, signals: Iterable[signal.Signals]) -> None:
        """Start the thread with these signals blocked: the kernel then delivers them to the main thread only."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        threading.Thread(target=self._run, name="tenure-stop-timer", daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def begin(self) -> None:
        """Start to count the grace; safe in a signal handler, like `interrupt_until_end`."""
        self._steps.put(None)

    def interrupt_until_end(self) -> None:
        """The caller interrupts the job now; only repeat the signal until the end."""
        self._steps.put(None)
        self._steps.put(None)

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        self._steps.get()
        try:
            self._steps.get(timeout=self._seconds)
        except queue.Empty:
            if not self._ended.is_set():
                logger.warning("the stop grace of %g s is over: running jobs are handed back", self._seconds)
                self._interrupt()
        while not self._ended.wait(_REPEAT_INTERVAL):
            self._interrupt()

    def _interrupt(self) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
