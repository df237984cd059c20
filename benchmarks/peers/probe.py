"""Probe: a memory-mapped file in which every job leaves its times, whatever the peer; standard library only.

Slot i holds when job i was sent (or was due), when it last started, when it first finished, and how often it ran.
The regions follow each other, so that a mark is two stores of well under a microsecond and the same for all.
"""

import mmap
from pathlib import Path
from time import monotonic_ns

BYTES_PER_SLOT = 25  # three times and a count of one byte


class Probe:
    """With `slots` the file is made anew."""

    def __init__(self, path: Path, slots: int | None = None) -> None:
        if slots is not None:
            with path.open("wb") as file:
                file.truncate(slots * BYTES_PER_SLOT)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        slots = len(self._map) // BYTES_PER_SLOT
        view = memoryview(self._map)
        self.sent = view[: slots * 8].cast("q")
        self.started = view[slots * 8 : slots * 16].cast("q")
        self.finished = view[slots * 16 : slots * 24].cast("q")
        self.runs = view[slots * 24 :]

    def start(self, i: int) -> None:
        self.started[i] = monotonic_ns()
        self.runs[i] += 1

    def finish(self, i: int) -> None:
        if not self.finished[i]:
            self.finished[i] = monotonic_ns()

    def ran(self, jobs: int) -> int:
        """How many of the first jobs have started at least once."""
        return jobs - bytes(self.runs[:jobs]).count(0)

    def ended(self, jobs: int) -> int:
        """How many of the first jobs have finished."""
        return jobs - self.finished[:jobs].tolist().count(0)
