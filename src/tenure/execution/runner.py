"""The contract of a runner: it takes attempts from a source until there are no more, and reports each outcome.

`inline.py` runs them in the worker's process, `parent/runner.py` in child processes.
`RecycleLimits` says when a process that runs jobs is replaced, between two jobs.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tenure.definition.context import Progress
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome, peak_memory

Done = Callable[[Attempt, Outcome], None]
MEGABYTE = 1 << 20


class Source(Protocol):
    """Where attempts come from; `last_start` is when the last one was taken, by the monotonic clock."""

    last_start: float

    def take(self) -> Attempt | None:
        """Wait for the next attempt; None once there will be no more."""
        ...

    def take_up_to(self, limit: int, has_room: Callable[[Attempt], bool]) -> list[Attempt]:
        """At most so many of the attempts that are there now, without waiting.

        `has_room` gets each attempt that is taken and says whether another one may follow.
        """
        ...

    def put_back(self, attempts: Sequence[Attempt]) -> None:
        """Return attempts that were taken and did not start, in their order; they are taken first again."""
        ...

    def on_arrival(self, callback: Callable[[], None], /) -> None:
        """Call this whenever there is more to take, and when there will be no more."""
        ...

    def resize(self, concurrency: int) -> None:
        """From now on, so many attempts can run at once."""
        ...

    def seconds_left(self) -> float:
        """How long all attempts that were taken may run if the worker renews no lease; below 0 if a lease has ended."""
        ...

    def is_over(self) -> bool:
        """Whether no attempt waits and no more will come."""
        ...


class Runner(Protocol):
    """`concurrency` is how many attempts may run at once, to begin with.

    `ticked` is when the loop of the runner last ran, by the monotonic clock; None while it may take as long as a job.
    """

    concurrency: int
    ticked: float | None

    def serve(self, source: Source, done: Done) -> None:
        """Run attempts until the source is over, or until this process reaches its recycle limits.

        Called once. Everything that the runner starts belongs to the calling thread.
        """
        ...

    def stop_now(self) -> None:
        """Interrupt the running attempts; their outcome is `interrupted`."""
        ...

    def reload(self) -> bool:
        """Run later attempts with freshly imported code; False if only a new worker process could do that."""
        ...

    def lose(self, tickets: Sequence[object]) -> None:
        """Stop the attempts with these tickets, if that is possible: other workers have their leases now."""
        ...

    def cancel(self, tickets: Sequence[object]) -> None:
        """Interrupt the attempts with these tickets, then kill them if that is possible. May be called repeatedly.

        Their outcome is `cancelled`, unless they succeed all the same.
        """
        ...

    def progress(self) -> Sequence[tuple[Any, Progress]]:
        """The tickets of running attempts that have reported progress."""
        ...

    def running(self) -> Sequence[tuple[Attempt, float]]:
        """The attempts that run, each with its start by the monotonic clock."""
        ...

    def child_pids(self) -> Sequence[int]:
        """The child processes that run attempts; none if they run in this process."""
        ...


@dataclass(frozen=True, slots=True)
class RecycleLimits:
    """How many jobs a process may run, and how many MB it may hold when a job ends; None is no limit."""

    jobs: int | None = None
    memory: float | None = None

    def jobs_left(self, ran: int) -> int:
        """How many more jobs a process may get that has run so many."""
        return sys.maxsize if self.jobs is None else max(0, self.jobs - ran)

    def is_too_large(self, pid: int) -> bool:
        return self.memory is not None and resident_memory(pid) > self.memory * MEGABYTE


def resident_memory(pid: int) -> int:
    """As `resident_bytes`; without /proc, the most that this process ever held."""
    return resident_bytes(pid) or (peak_memory() or 0 if pid == os.getpid() else 0)


def resident_bytes(pid: int) -> int:
    """The bytes of memory that a process holds; 0 if it has ended, or if there is no /proc."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
