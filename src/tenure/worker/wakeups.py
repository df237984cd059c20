"""Wakeups: signals as values, for a loop that waits for them and for descriptors at once."""

import errno
import select
import signal
import socket
import termios
from collections.abc import Iterable
from types import FrameType
from typing import Self


class Wakeups:
    """While entered these signals do nothing but end a `wait`, which tells which they were."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = tuple(numbers)
        self._near, self._far = socket.socketpair()

    def __enter__(self) -> Self:
        self._near.setblocking(False)
        self._far.setblocking(False)
        signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        for number in self._numbers:
            if not is_left_out(number):
                signal.signal(number, _leave_it_to_the_loop)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """The handlers stay: a late signal must not spoil the end."""
        signal.set_wakeup_fd(-1)
        self._near.close()
        self._far.close()

    def wait(self, seconds: float, descriptors: Iterable[int]) -> list[int]:
        """Until a signal, something to read, or the time is up; the numbers of the signals, in order."""
        poll = select.poll()
        for descriptor in (self._near.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        try:
            return list(self._near.recv(1 << 10))
        except BlockingIOError:
            return []


def is_left_out(number: signal.Signals) -> bool:
    """Whether we were started by `nohup`, so that this signal stays ignored."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def terminal_is_gone() -> bool:
    """Whether a SIGHUP came because the terminal was closed, and not because somebody sent it."""
    try:
        termios.tcgetattr(0)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)  # what never was a terminal says otherwise
    return False


def _leave_it_to_the_loop(number: int, frame: FrameType | None) -> None:
    """A handler there must be: without one the wake-up is not written."""
