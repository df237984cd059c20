"""Signals that reach a whole group, such as Ctrl-C, are the parent's to answer: it decides what becomes of jobs."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

_LEFT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


@contextmanager
def held_back() -> Iterator[None]:
    """What is started meanwhile hears none of them until it leaves them to its parent."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def leave_signals_to_parent() -> None:
    """They are caught and not ignored: a program that a job starts would inherit that, and could not be stopped."""
    for number in _LEFT:
        signal.signal(number, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT)
    forks = _Forks()
    os.register_at_fork(before=forks.hold, after_in_parent=forks.go_on, after_in_child=forks.hear_again)


def _leave(number: int, frame: FrameType | None) -> None:
    """The parent has it too."""


class _Forks:
    """A copy that a job makes by fork hears them again, from its first moment: its maker may want to stop it."""

    def __init__(self) -> None:
        self._mask: Iterable[int] = ()

    def hold(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT)

    def go_on(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def hear_again(self) -> None:
        for number in _LEFT:
            if signal.getsignal(number) is _leave:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        self.go_on()
