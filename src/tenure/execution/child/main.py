"""How a child process starts: leave signals to the parent, then serve orders in one of three ways.

The program is `tenure.cli.process.child_jobs`: it calls the functions of this module in their order here.
"""

import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType

from tenure.clock import Clock
from tenure.execution.child.event_loop import run_on_event_loop
from tenure.execution.child.orders import OrderPipes, Resolve
from tenure.execution.child.process import run_one_at_a_time
from tenure.execution.child.threads import run_on_threads
from tenure.execution.protocol import PARENT_SIGNALS
from tenure.execution.shared_memory import SharedMemory


def leave_signals_to_parent() -> None:
    """Do nothing on the signals that the parent handles.

    The child catches them instead of ignoring them. A program that a job starts would inherit the ignoring, and
    could not be stopped.
    """
    for number in PARENT_SIGNALS:
        signal.signal(number, _do_nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PARENT_SIGNALS)
    forks = _ForkSignals()
    os.register_at_fork(before=forks.block, after_in_parent=forks.unblock, after_in_child=forks.restore_defaults)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The parent receives the signal too."""


class _ForkSignals:
    """Gives a copy that a job makes by fork the default signal handlers at once: the job may want to stop it."""

    def __init__(self) -> None:
        self._mask: Iterable[int] = ()

    def block(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, PARENT_SIGNALS)

    def unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore_defaults(self) -> None:
        for number in PARENT_SIGNALS:
            if signal.getsignal(number) is _do_nothing:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        self.unblock()


Serve = Callable[[OrderPipes, SharedMemory, Resolve, Clock], None]
SERVE_BY_RUNNER: dict[str, Serve] = {
    "process": run_one_at_a_time,
    "threads": run_on_threads,
    "event_loop": run_on_event_loop,
}
