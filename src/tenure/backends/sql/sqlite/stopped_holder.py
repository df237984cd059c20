"""Continues a process that was stopped while it held the write lock of a SQLite file."""

import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)


def continue_stopped_holder(descriptor: int, path: Path) -> None:
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
