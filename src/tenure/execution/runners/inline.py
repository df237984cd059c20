"""The `inline` runner: one attempt at a time, in the thread that serves; the highest rate and the least isolation."""

import os
from collections.abc import Sequence
from typing import Any

from tenure.clock import Clock
from tenure.definition.link import LocalLink
from tenure.definition.progress import Progress
from tenure.execution.attempt import Performer
from tenure.execution.runners.contract import Done, Source
from tenure.execution.runners.wear import Wear


class InlineRunner:
    """A handler that calls C for long or ends the process takes the worker with it."""

    concurrency = 1
    ticked: float | None = None  # a job may take as long as it likes

    def __init__(self, clock: Clock, wear: Wear | None = None) -> None:
        """Once its process is worn it ends, though there may be more to do."""
        self._performer = Performer(clock)
        self._wear = wear
        self._running: tuple[Any, LocalLink] | None = None

    def serve(self, source: Source, done: Done) -> None:
        with self._performer as performer:
            take, perform, ran = source.take, performer.perform, 0
            while (attempt := take()) is not None:
                link = LocalLink()
                self._running = attempt.ticket, link
                outcome = perform(attempt, link)
                self._running = None
                done(attempt, outcome)
                if self._wear:
                    ran += 1
                    if not self._wear.left(ran) or self._wear.is_too_large(os.getpid()):
                        return

    def stop_now(self) -> None:
        self._performer.deadline.stop_now()

    def reload(self) -> bool:
        return False

    def lose(self, tickets: Sequence[object]) -> None:
        """It cannot be stopped from outside; its settlement will be refused."""

    def cancel(self, tickets: Sequence[object]) -> None:
        running = self._running
        if running and any(running[0] is ticket for ticket in tickets):
            running[1].cancelled = True
            self._performer.deadline.look()

    def progress(self) -> Sequence[tuple[Any, Progress]]:
        running = self._running
        return [(running[0], running[1].progress)] if running and running[1].progress else []
