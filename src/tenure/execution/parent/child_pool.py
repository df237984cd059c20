"""The pool of child processes: starts and replaces children, and gives up when they cannot start."""

import logging
import selectors
import time
from collections.abc import Callable

from tenure.errors import TenureError
from tenure.execution.parent.child_process import ChildProcess, ExitReport
from tenure.execution.runner import RecycleLimits
from tenure.redaction import one_line

logger = logging.getLogger(__name__)

_MAX_FAILED_STARTS = 5
_START_TIMEOUT = 120.0
_STARTUP_SECONDS = 10.0  # a child that dies idle within this time has failed to start, even if it was ready
_LEAVE_TIMEOUT = 2.0  # for what the app of a leaving child does at exit

Spawn = Callable[[], ChildProcess]


class ChildPool:
    """`selector` reports which child has written a report or can take more orders; its data is the child.

    Children at their recycle limits leave when their jobs are done. Stale children (with old code) leave once a fresh
    child is ready in their place.
    """

    def __init__(self, spawn: Spawn, size: int, limits: RecycleLimits) -> None:
        self._spawn = spawn
        self._size = size
        self._limits = limits
        self._failed_starts = 0
        self._start_after = 0.0
        self.children: list[ChildProcess] = []
        self.selector = selectors.DefaultSelector()

    def fill(self) -> None:
        """Start children until there are enough, with growing delays while that fails; release replaced ones."""
        fresh = [child for child in self.children if not (child.stale or child.leaving)]
        while len(fresh) < self._size and time.monotonic() >= self._start_after:
            try:
                child = self._spawn()
            except OSError as error:  # too many processes, no memory
                self._start_failed(f"it could not be started: {error}")
                continue
            fresh.append(child)
            self.children.append(child)
            self.selector.register(child.reports, selectors.EVENT_READ, child)
        stale = [child for child in self.children if child.stale and not child.leaving]
        for child in stale[: max(0, sum(each.ready for each in fresh) + len(stale) - self._size)]:
            child.leaving = True

    def replace_all(self) -> None:
        """Replace the present children by fresh ones."""
        for child in self.children:
            child.stale = True

    def jobs_left(self, child: ChildProcess) -> int:
        """How many more jobs a child may get; at its limit it leaves."""
        left = self._limits.jobs_left(child.jobs)
        child.leaving = child.leaving or not left
        return 0 if child.leaving or not child.ready else left

    def has_idle_child(self) -> bool:
        """Whether a child waits for orders."""
        return any(child.ready and not (child.pending or child.leaving or child.paused) for child in self.children)

    def capacity(self, slots: int) -> int:
        """How many jobs can run at once in children of so many slots.

        A child that starts, leaves, is stopped or is stuck takes no orders: other children should get its jobs. What
        it still runs counts all the same, because the source counts it as running.
        """
        return sum(
            slots if child.ready and not (child.leaving or child.paused) else len(child.pending)
            for child in self.children
        )

    def on_report(self, child: ChildProcess) -> None:
        """A child reported a result: reset the count of failed starts; the child leaves if it has grown too large."""
        self._failed_starts = 0
        child.leaving = child.leaving or self._limits.is_too_large(child.pid)

    def check(self, child: ChildProcess, now: float) -> None:
        """Retire a child that may leave; kill one that takes too long to start or to leave."""
        if child.leaving and not child.pending and child.ready:
            child.retire()
        late = not child.ready and now - child.started > _START_TIMEOUT
        if late or (child.retired_at is not None and now - child.retired_at > _LEAVE_TIMEOUT):
            child.kill()

    def send_orders(self, child: ChildProcess) -> None:
        """Send the unsent orders; while the pipe is full, the selector reports when it has room again."""
        was_full, child.pipe_is_full = child.pipe_is_full, child.send()
        if child.pipe_is_full and not was_full:
            self.selector.register(child.orders, selectors.EVENT_WRITE, child)
        elif was_full and not child.pipe_is_full:
            self.selector.unregister(child.orders)

    def remove(self, child: ChildProcess) -> None:
        self.children.remove(child)
        self.selector.unregister(child.reports)
        if child.pipe_is_full:
            self.selector.unregister(child.orders)

    def on_idle_exit(self, child: ChildProcess, report: ExitReport) -> None:
        """Log the exit of a child that ran no job; count it as a failed start if it happened during startup."""
        if child.leaving:
            return
        if child.ready and (child.jobs or time.monotonic() - child.started > _STARTUP_SECONDS):
            logger.warning("%s while it was idle", report.how)
        else:
            last_lines = f"; its last lines were: {one_line(report.last_lines)}" if report.last_lines else ""
            self._start_failed(f"{report.how}{last_lines}")

    def close(self) -> None:
        """Let all children exit, and wait until they have ended. Call it when none has a job."""
        children = list(self.children)
        for child in children:
            self.remove(child)
            child.retire()
        give_up = time.monotonic() + _LEAVE_TIMEOUT
        for child in children:
            child.release(child.wait_for_exit(max(0.0, give_up - time.monotonic())))

    def _start_failed(self, cause: str) -> None:
        self._failed_starts += 1
        self._start_after = time.monotonic() + 0.1 * 2**self._failed_starts
        if self._failed_starts < _MAX_FAILED_STARTS:
            logger.error("a child died before it could run a job: %s", cause)
        elif any(child.stale for child in self.children):
            logger.error("children with the new code fail to start, so the old ones stay: %s", cause)
            for child in self.children:
                child.stale = False
        else:
            raise TenureError(f"{self._failed_starts} children in a row died before they could run a job: {cause}")
