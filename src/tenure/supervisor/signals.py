"""Signals for the processes of `tenure work`: which ones stop them, and a wait that returns signals as values."""

import errno
import select
import signal
import socket
import termios
from collections.abc import Iterable
from types import FrameType
from typing import Self

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class SignalWaiter:
    """While it is entered, these signals only end a `wait`, which returns their numbers."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = tuple(numbers)
        self._reader, self._writer = socket.socketpair()

    def __enter__(self) -> Self:
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in self._numbers:
            if not is_ignored(number):
                signal.signal(number, _do_nothing)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """The handlers stay: a late signal must not disturb the end of the process."""
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float, descriptors: Iterable[int]) -> list[int]:
        """Wait for a signal, for data on a descriptor, or until the time is up; returns the signals in order."""
        poll = select.poll()
        for descriptor in (self._reader.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        try:
            return list(self._reader.recv(1 << 10))
        except BlockingIOError:
            return []


def is_ignored(number: signal.Signals) -> bool:
    """Whether `nohup` started this process, so that it must keep ignoring SIGHUP."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def terminal_was_closed() -> bool:
    """Whether a SIGHUP came because the terminal was closed, and not because a user or a program sent it."""
    try:
        termios.tcgetattr(0)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)  # if it never was a terminal, the error is another one
    return False


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Python writes to the wake-up descriptor only if a handler is installed."""
