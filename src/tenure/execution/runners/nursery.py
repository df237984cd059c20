"""Nursery: keeps as many children alive as it was told, and gives up when they keep dying before they are of use."""

import logging
import selectors
import time
from collections.abc import Callable

from tenure.errors import TenureError
from tenure.execution.children.process import Child, Evidence
from tenure.execution.runners.wear import Wear
from tenure.redaction import one_line

logger = logging.getLogger(__name__)

_MOST_FAILED_STARTS = 5
_LONGEST_START = 120.0
_INFANCY = 10.0  # a child that dies idle within this time has failed to start, ready or not
_LEAVE = 2.0  # for a child that may go: what its app does at exit

Spawn = Callable[[], Child]


class Nursery:
    """`selector` tells when a child has reported something, or can be sent more; its data is the child.

    Worn children leave when their jobs are done; stale ones once a fresh child is ready in their place.
    """

    def __init__(self, spawn: Spawn, size: int, wear: Wear) -> None:
        self._spawn = spawn
        self._size = size
        self._wear = wear
        self._failed_starts = 0
        self._start_after = 0.0
        self.children: list[Child] = []
        self.selector = selectors.DefaultSelector()

    def keep_full(self) -> None:
        """Start children until there are enough, slower and slower while that fails; let go of those replaced."""
        fresh = [child for child in self.children if not (child.stale or child.leaving)]
        while len(fresh) < self._size and time.monotonic() >= self._start_after:
            try:
                child = self._spawn()
            except OSError as error:  # too many processes, no memory
                self._failed(f"it could not be started: {error}")
                continue
            fresh.append(child)
            self.children.append(child)
            self.selector.register(child.reports, selectors.EVENT_READ, child)
        stale = [child for child in self.children if child.stale and not child.leaving]
        for child in stale[: max(0, sum(each.ready for each in fresh) + len(stale) - self._size)]:
            child.leaving = True

    def refresh(self) -> None:
        """Have fresh children take the place of those there are."""
        for child in self.children:
            child.stale = True

    def room(self, child: Child) -> int:
        """How many more jobs a child may be given in its life; at the end of it, it leaves."""
        left = self._wear.left(child.jobs)
        child.leaving = child.leaving or not left
        return 0 if child.leaving or not child.ready else left

    def weigh(self, child: Child) -> None:
        """A child that has grown too large by what it did leaves."""
        child.leaving = child.leaving or self._wear.is_too_large(child.pid)

    def ready(self) -> int:
        return sum(child.ready and not child.leaving for child in self.children)

    def succeeded(self) -> None:
        """A child has done what children are for."""
        self._failed_starts = 0

    def look_after(self, child: Child, now: float) -> None:
        """Let it go when it may leave; kill it when it takes too long to start or to go."""
        if child.leaving and not child.pending and child.ready:
            child.retire()
        late = not child.ready and now - child.started > _LONGEST_START
        if late or (child.retired is not None and now - child.retired > _LEAVE):
            child.kill()

    def send(self, child: Child) -> None:
        """Push what is unsent; have the selector tell when a full pipe has room again."""
        was_full, child.full = child.full, child.send()
        if child.full and not was_full:
            self.selector.register(child.orders, selectors.EVENT_WRITE, child)
        elif was_full and not child.full:
            self.selector.unregister(child.orders)

    def forget(self, child: Child) -> None:
        self.children.remove(child)
        self.selector.unregister(child.reports)
        if child.full:
            self.selector.unregister(child.orders)

    def died(self, child: Child, evidence: Evidence) -> None:
        """Count a death that no job is to blame for."""
        if child.leaving:
            return
        if child.ready and (child.jobs or time.monotonic() - child.started > _INFANCY):
            logger.warning("%s while it ran nothing", evidence.how)
        else:
            said = f"; its last lines were: {one_line(evidence.said)}" if evidence.said else ""
            self._failed(f"{evidence.how}{said}")

    def dismiss(self) -> None:
        """Let the idle children go, and wait until they are gone."""
        children = list(self.children)
        for child in children:
            self.forget(child)
            child.retire()
        give_up = time.monotonic() + _LEAVE
        for child in children:
            child.bury(child.end(max(0.0, give_up - time.monotonic())))

    def _failed(self, cause: str) -> None:
        self._failed_starts += 1
        self._start_after = time.monotonic() + 0.1 * 2**self._failed_starts
        if self._failed_starts < _MOST_FAILED_STARTS:
            logger.error("a child died before it was of use: %s", cause)
        elif any(child.stale for child in self.children):
            logger.error("children with fresh code keep dying, and the old ones stay: %s", cause)
            for child in self.children:
                child.stale = False
        else:
            raise TenureError(f"{self._failed_starts} children in a row died before they were of use: {cause}")
