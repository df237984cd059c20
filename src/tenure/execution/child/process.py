"""The child of the `process` runner: one job at a time, and a cleanup after each."""

import fcntl
import os
import select
import signal
import sys
from _signal import alarm, getsignal, pthread_sigmask  # type: ignore[import-not-found]  # `signal` makes enums: 4 µs
from contextlib import suppress

from tenure.clock import Clock
from tenure.execution.attempt import Attempt, Performer
from tenure.execution.child.orders import OrderHandler, OrderPipes, Resolve
from tenure.execution.outcome import Capture, Outcome
from tenure.execution.protocol import Order
from tenure.execution.raw_output import RawOutput
from tenure.execution.shared_memory import SharedMemory, SharedMemoryLink

_STREAMS = (0, 1, 2)
_SIGNALS = (int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGALRM))
_SIG_SETMASK = int(signal.SIG_SETMASK)
_SHORT_SECONDS = 0.001
_FIRST_COPY = 100  # copies of the streams get numbers from here on


def run_one_at_a_time(pipes: OrderPipes, memory: SharedMemory, resolve: Resolve, clock: Clock) -> None:
    """Run jobs in the main thread, so that SIGALRM can interrupt them."""
    orders = OrderHandler(pipes, memory, resolve, clock)
    raw = RawOutput(pipes.raw_output)
    capture = Capture(raw)
    with raw.installed(), capture.installed(), Performer(clock, capture=capture) as performer:
        memory.set_cancel_signal(signal.SIGALRM)
        cleanup, reports = ProcessCleanup(), JobReports(orders, pipes)
        while (batch := pipes.read()) is not None:
            raw.pass_on()
            loud = (len(batch) - 1, (len(batch) - 1) // 2)
            for position, order in enumerate(batch):
                attempt = orders.start(0, order)
                if attempt is None:
                    continue
                reports.before(attempt)
                outcome = performer.perform(attempt, SharedMemoryLink(memory, 0, order.ticket))
                is_clean = cleanup.restore()
                reports.report(order, attempt, outcome, position not in loud)
                if not is_clean or (outcome.failure is not None and outcome.failure.type == "MemoryError"):
                    pipes.close()  # the state of this process is unknown: the next job gets a fresh one
                    return


class JobReports:
    """Reports each job at once, and wakes the parent for many short jobs together.

    A wake-up takes more CPU than all the rest of a job that does nothing. The parent is woken in the middle of the
    orders, so that it sends the next ones in time, at their end, and before a job that may take long.
    """

    def __init__(self, orders: OrderHandler, pipes: OrderPipes) -> None:
        self._orders = orders
        self._pipes = pipes
        self._short_handlers: set[str] = set()  # whose last job took less than a millisecond
        self._has_unread = False

    def before(self, attempt: Attempt) -> None:
        """A job starts: if it may take long, the parent must not wait until its end for the reports before it."""
        if self._has_unread and attempt.envelope.job not in self._short_handlers:
            self._pipes.wake_parent()
            self._has_unread = False

    def report(self, order: Order, attempt: Attempt, outcome: Outcome, may_wait: bool) -> None:
        handler = attempt.envelope.job
        if outcome.seconds >= _SHORT_SECONDS:
            self._short_handlers.discard(handler)
            may_wait = False
        elif handler not in self._short_handlers:
            self._short_handlers.add(handler)
        self._has_unread = may_wait
        if may_wait:
            self._orders.report_quietly(0, order, outcome)
        else:
            self._orders.report(0, order, outcome)


class ProcessCleanup:
    """Restores what a job may have changed in its process, so that the next job finds it as the first job did.

    Create it once everything is in place, and call `restore` after each job. It asks the kernel, because code in C
    makes changes that Python does not see. Five system calls are the price of that: 1.6 µs.
    """

    def __init__(self) -> None:
        self._folder = _working_folder()
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._handlers = [(number, getsignal(number)) for number in _SIGNALS]
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._copies = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, _FIRST_COPY) for stream in _STREAMS]
        self._stream_check = select.poll()  # one system call for all three
        for stream in _STREAMS:
            self._stream_check.register(stream, 0)

    def restore(self) -> bool:
        """Restore everything; False if that is impossible and only a fresh process is clean."""
        alarm(0)  # this ends what `setitimer` has set too: the kernel has one timer for both
        for number, handler in self._handlers:
            if getsignal(number) is not handler:
                signal.signal(number, handler)
        pthread_sigmask(_SIG_SETMASK, self._blocked)
        os.umask(self._umask)
        if _working_folder() != self._folder:
            with suppress(FileNotFoundError):  # the folder no longer exists
                os.chdir(self._folder)
        for stream, event in self._stream_check.poll(0):
            if event & select.POLLNVAL:  # it is closed
                os.dup2(self._copies[stream], stream)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        return not (sys.stdout.closed or sys.stderr.closed)


def _working_folder() -> bytes:
    try:
        return os.getcwdb()  # noqa: PTH109 - a Path would cost as much as all the rest
    except FileNotFoundError:
        return b""
