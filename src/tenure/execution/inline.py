"""The `inline` runner: one attempt at a time, in the thread that calls `serve`. Highest rate, least isolation."""

import os
from collections.abc import Sequence
from typing import Any

from tenure.clock import Clock
from tenure.definition.context import LocalLink, Progress
from tenure.execution.attempt import Attempt, Performer
from tenure.execution.runner import Done, RecycleLimits, Source


class InlineRunner:
    """A handler that stays in C code blocks the worker, and one that ends the process ends the worker."""

    concurrency = 1
    ticked: float | None = None  # the loop runs again only when a job ends, which may take any time

    def __init__(self, clock: Clock, limits: RecycleLimits | None = None) -> None:
        """At its recycle limits `serve` returns, even if there is more to do."""
        self._performer = Performer(clock)
        self._limits = limits
        self._running: tuple[Attempt, LocalLink] | None = None
        self._source: Source | None = None

    def serve(self, source: Source, done: Done) -> None:
        self._source = source
        with self._performer as performer:
            take, perform, ran = source.take, performer.perform, 0
            while (attempt := take()) is not None:
                link = LocalLink()
                self._running = attempt, link
                outcome = perform(attempt, link)
                self._running = None
                done(attempt, outcome)
                if self._limits:
                    ran += 1
                    if not self._limits.jobs_left(ran) or self._limits.is_too_large(os.getpid()):
                        return

    def stop_now(self) -> None:
        self._performer.deadline.stop_now()

    def reload(self) -> bool:
        return False

    def lose(self, tickets: Sequence[object]) -> None:
        """The attempt cannot be stopped from outside; the backend will refuse to settle it."""

    def cancel(self, tickets: Sequence[object]) -> None:
        running = self._running
        if running and any(running[0].ticket is ticket for ticket in tickets):
            running[1].cancelled = True
            self._performer.deadline.deliver_cancel()

    def progress(self) -> Sequence[tuple[Any, Progress]]:
        running = self._running
        return [(running[0].ticket, running[1].progress)] if running and running[1].progress else []

    def running(self) -> Sequence[tuple[Attempt, float]]:
        running, source = self._running, self._source
        return [(running[0], source.last_start)] if running and source else []

    def child_pids(self) -> Sequence[int]:
        return ()
