"""LogWatches: how a thread waits for a write of another process to the database.

On Linux the kernel reports each write to the write-ahead log, elsewhere a wait is a short sleep. A report comes before
the commit is visible, so the waits after it are short, and grow with the time since the report: a commit that takes
10 ms is seen 2 ms later at most.
"""

import ctypes
import os
import select
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenure.backends.sql.dialect import Wait

_IN_MODIFY = 0x2
_IN_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")
_IDLE_POLL_SECONDS = 0.25  # a report may be lost, and some file systems send none
_POLL_SECONDS = 0.001
_POLL_GROWTH = 1.25
_COMMIT_SECONDS = 0.0003  # most commits take less; a stream of writes is looked at only every _POLL_SECONDS
_POLL_WITHOUT_REPORTS_SECONDS = 0.01  # 100 polls a second cost 0.4 % of a core


class LogWatches:
    """The watches of a process; each waiting thread uses one.

    They stay open: the kernel takes up to 40 ms to close one, which would delay the job that ended the wait.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._pid = os.getpid()
        self._free: list[LogWatch] = []

    @contextmanager
    def watch(self) -> Iterator[Wait]:
        """A function that waits for a write; it sleeps where the system has no reports or no watches left."""
        try:
            watch = self._take()
        except OSError:
            yield _sleep
            return
        try:
            yield watch.wait
        finally:
            self._free.append(watch)

    def close(self) -> None:
        while self._free:
            self._free.pop().close()

    def _take(self) -> "LogWatch":
        if self._pid != os.getpid():  # a child process does not read the reports of its parent
            self.close()
            self._pid = os.getpid()
        with suppress(IndexError):
            watch = self._free.pop()
            if watch.begin():
                return watch
            watch.close()
        return LogWatch(self._log)


def _sleep(seconds: float) -> bool:
    time.sleep(min(seconds, _POLL_WITHOUT_REPORTS_SECONDS))
    return False


class LogWatch:
    """Watches the write-ahead log with inotify (Linux)."""

    def __init__(self, log: Path) -> None:
        if sys.platform != "linux":
            raise OSError("inotify needs Linux")
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        if libc.inotify_add_watch(self._descriptor, os.fsencode(log), _IN_MODIFY) < 0:
            os.close(self._descriptor)
            raise OSError(ctypes.get_errno(), f"inotify cannot watch {str(log)!r}")
        self._pause = _IDLE_POLL_SECONDS
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def begin(self) -> bool:
        """Begin a wait; False when the log was deleted, as SQLite does after its last user."""
        if not self._poll.poll(0):
            self._pause = _IDLE_POLL_SECONDS
            return True
        self._pause = _POLL_SECONDS  # the commits of these reports may be under way
        return not any(mask & _IN_IGNORED for _, mask, _, _ in _EVENT.iter_unpack(self._read()))

    def wait(self, seconds: float) -> bool:
        seconds = min(seconds, self._pause)
        if self._poll.poll(int(seconds * 1000)):
            self._read()
            time.sleep(_COMMIT_SECONDS if self._pause > 2 * _POLL_SECONDS else _POLL_SECONDS)
            self._pause = _POLL_SECONDS
        else:
            time.sleep(seconds % 0.001)  # poll counts whole milliseconds, and a delayed job may be due
            self._pause = min(self._pause * _POLL_GROWTH, _IDLE_POLL_SECONDS)
        return False

    def close(self) -> None:
        os.close(self._descriptor)

    def _read(self) -> bytes:
        return os.read(self._descriptor, 4096)
