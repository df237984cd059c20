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
from functools import partial
from pathlib import Path

from tenure.backends.ends import Wakeup
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
    def watch(self, wakeup: Wakeup | None = None) -> Iterator[Wait]:
        """A function that waits for a write, or for this wakeup; with a wakeup, it is False if only that was set.

        It waits for a short time where the system has no reports or no watches left.
        """
        try:
            watch = self._take()
        except OSError:
            yield _sleep if wakeup is None else partial(_wait_shortly, wakeup)
            return
        try:
            with watch.also_ended_by(wakeup):
                yield watch.wait if wakeup is None else watch.wait_for_write
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


def _wait_shortly(wakeup: Wakeup, seconds: float) -> bool:
    return wakeup.wait(min(seconds, _POLL_WITHOUT_REPORTS_SECONDS))


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
        self._pause = _POLL_SECONDS  # a commit may be under way whose report came before
        self._is_deleted = False
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def begin(self) -> bool:
        """Begin a wait; False when the log was deleted, as SQLite does after its last user.

        Its polls go on where those of the last wait ended: the commit of the last report may still be under way.
        """
        if self._poll.poll(0):
            self._pause = _POLL_SECONDS
            self._read()
        return not self._is_deleted

    @contextmanager
    def also_ended_by(self, wakeup: Wakeup | None) -> Iterator[None]:
        """Let this wakeup end waits too."""
        if wakeup is None:
            yield
            return
        self._poll.register(wakeup, select.POLLIN)
        try:
            yield
        finally:
            self._poll.unregister(wakeup)

    def wait(self, seconds: float) -> bool:
        self.wait_for_write(seconds)
        return False

    def wait_for_write(self, seconds: float) -> bool:
        """False if only a wakeup ended the wait."""
        seconds = min(seconds, _POLL_WITHOUT_REPORTS_SECONDS if self._is_deleted else self._pause)
        found = [descriptor for descriptor, _ in self._poll.poll(int(seconds * 1000))]
        if self._descriptor in found:
            self._read()
            time.sleep(_COMMIT_SECONDS if self._pause > 2 * _POLL_SECONDS else _POLL_SECONDS)
            self._pause = _POLL_SECONDS
        elif not found:
            time.sleep(seconds % 0.001)  # poll counts whole milliseconds, and a delayed job may be due
            self._pause = min(self._pause * _POLL_GROWTH, _IDLE_POLL_SECONDS)
        return self._descriptor in found or not found

    def close(self) -> None:
        os.close(self._descriptor)

    def _read(self) -> None:
        events = _EVENT.iter_unpack(os.read(self._descriptor, 4096))
        self._is_deleted |= any(mask & _IN_IGNORED for _, mask, _, _ in events)
