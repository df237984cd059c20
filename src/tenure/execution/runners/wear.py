"""Wear: when a process that runs jobs has done enough and a fresh one takes its place, between jobs."""

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Wear:
    """`jobs` is how many a process may run, `memory` how many MB it may hold when a job ends; None is no limit."""

    jobs: int | None = None
    memory: float | None = None

    def left(self, ran: int) -> int:
        """How many more jobs it may be given."""
        return sys.maxsize if self.jobs is None else max(0, self.jobs - ran)

    def is_too_large(self, pid: int) -> bool:
        return self.memory is not None and resident(pid) > self.memory * MEGABYTE


def resident(pid: int) -> int:
    """The bytes of memory a process holds; without /proc, the most this one ever held."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except FileNotFoundError:
        if pid != os.getpid():
            return 0  # it is gone, or this is no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE")
