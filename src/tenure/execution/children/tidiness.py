"""Tidiness: what a job may have changed in its process is put back, so that the next job finds it as the first did."""

import fcntl
import os
import signal
import sys
from contextlib import suppress

_STREAMS = (0, 1, 2)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)


class Tidiness:
    """Made once everything is in place, then asked after each job; looking around costs about 7 µs."""

    def __init__(self) -> None:
        self._folder = _folder()
        self._mask = os.umask(0)
        os.umask(self._mask)
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._copies = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 100) for stream in _STREAMS]

    def restore(self) -> bool:
        """Put everything back; False when that cannot be done, and only a fresh process is tidy."""
        self._restore_signals()
        os.umask(self._mask)
        if _folder() != self._folder:
            with suppress(FileNotFoundError):  # a folder that is gone cannot be gone back to
                os.chdir(self._folder)
        return self._restore_streams()

    def _restore_signals(self) -> None:
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    def _restore_streams(self) -> bool:
        for stream, copy in zip(_STREAMS, self._copies, strict=True):
            try:
                os.get_inheritable(stream)  # the cheapest question to ask
            except OSError:
                os.dup2(copy, stream)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        return not (sys.stdout.closed or sys.stderr.closed)


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a Path would cost as much as all the rest
    except FileNotFoundError:
        return ""
