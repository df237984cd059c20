"""WriteLock: the processes that write to a SQLite file take turns; one that is stopped in its turn is continued."""

import fcntl
import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tenure.errors import BackendUnavailable

logger = logging.getLogger(__name__)
_LOCK_POLL_SECONDS = 0.0003  # a write transaction takes 0.3 to 5 ms
_STOPPED_SECONDS = 1.0  # the longest write transaction of a batch takes a tenth of this


class WriteLock:
    """Gives the write slot of a SQLite file to processes in turn; the caller serialises the threads of its process.

    SQLite waits by sleeping and trying again, so a busy process can starve another one for seconds. Here a process
    first takes the gate, then waits for the slot while it holds the gate: a process that just released the slot must
    queue behind it. The kernel frees both when a process dies. A process that is stopped while it holds one of them
    is continued by those that wait (`_continue_stopped_holder`).
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._gate = self._open("gate")
        self._slot = self._open("slot")

    def acquire(self) -> None:
        give_up = time.monotonic() + self._timeout
        self._take(self._gate, give_up)
        try:
            self._take(self._slot, give_up)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def release(self) -> None:
        fcntl.flock(self._slot, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._slot)

    def _take(self, descriptor: int, give_up: float) -> None:
        look_at = time.monotonic() + _STOPPED_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = time.monotonic()
                if now > look_at:
                    _continue_stopped_holder(descriptor, self._path)
                    look_at = now + _STOPPED_SECONDS
                if now > give_up:
                    raise BackendUnavailable(
                        f"another process has been writing to {str(self._path)!r} for {self._timeout:g} s; "
                        "find it with fuser or lsof: it may be stopped or stuck"
                    ) from None
                time.sleep(_LOCK_POLL_SECONDS)
            else:
                return

    def _open(self, role: str) -> int:
        return os.open(f"{self._path}-{role}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _continue_stopped_holder(descriptor: int, path: Path) -> None:
    """Send SIGCONT to a stopped process that holds the `flock` of this file: until it continues, no process can write.

    Only Linux tells who holds a lock, and only processes that this one may signal are continued.
    """
    inode = os.fstat(descriptor).st_ino
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            match line.split():
                case [_, "FLOCK", _, "WRITE", pid, place, *_] if place.endswith(f":{inode}"):
                    if _is_stopped(int(pid)) and _has_open(int(pid), descriptor):
                        os.kill(int(pid), signal.SIGCONT)
                        logger.warning(
                            "process %s was stopped while it wrote to %s, and blocked every other writer; "
                            "it was continued",
                            pid,
                            path,
                        )


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def _has_open(pid: int, descriptor: int) -> bool:
    """Inodes are unique within a file system only; the list of locks names file systems differently from `stat`."""
    return any(os.path.samestat(os.fstat(descriptor), file.stat()) for file in Path(f"/proc/{pid}/fd").iterdir())
