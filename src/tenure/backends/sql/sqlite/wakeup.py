"""Wakeup: tells when somebody wrote to a SQLite file, without asking it over and over.

On Linux the kernel reports each write to the write-ahead log; elsewhere it is a short sleep.
The report comes before the commit can be seen, so the waits after one are short for as long as a commit may take.
"""

import ctypes
import os
import select
import sys
import time
from pathlib import Path
from typing import Protocol

_IN_MODIFY = 0x2
_IDLE_POLL = 0.25  # behind every report: one may be lost, or the file may be on a disk that sends none
_LOOKS_AFTER_WRITE = 30
_LOOK_AGAIN = 0.001
_BLIND_POLL = 0.01  # without reports: 100 looks a second cost 0.4 % of a core


class Wakeup(Protocol):
    """One wait for work."""

    def wait(self, seconds: float) -> None:
        """Wait for a write, but no longer than this."""
        ...

    def close(self) -> None: ...


class BlindWakeup:
    """For systems that report nothing: always "maybe", after a short sleep."""

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, _BLIND_POLL))

    def close(self) -> None:
        """Nothing was opened."""


class InotifyWakeup:
    """Linux: watches the write-ahead log."""

    def __init__(self, log: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        if libc.inotify_add_watch(self._descriptor, os.fsencode(log), _IN_MODIFY) < 0:
            os.close(self._descriptor)
            raise OSError(ctypes.get_errno(), f"inotify cannot watch {str(log)!r}")
        self._looks = 0
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def wait(self, seconds: float) -> None:
        if self._looks:
            self._looks -= 1
            time.sleep(_LOOK_AGAIN)
        elif self._poll.poll(max(1, min(seconds, _IDLE_POLL) * 1000)):
            os.read(self._descriptor, 4096)
            self._looks = _LOOKS_AFTER_WRITE

    def close(self) -> None:
        os.close(self._descriptor)


def open_wakeup(log: Path) -> Wakeup:
    """The best this system has; limits on watches make it fall back rather than fail."""
    if sys.platform == "linux":
        try:
            return InotifyWakeup(log)
        except OSError:
            pass
    return BlindWakeup()
