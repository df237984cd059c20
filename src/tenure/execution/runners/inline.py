"""The `inline` runner: one attempt at a time, in the thread that serves; the highest rate and the least isolation."""

from tenure.clock import Clock
from tenure.execution.attempt import Performer
from tenure.execution.runners.contract import Done, Take


class InlineRunner:
    """A handler that calls C for long or ends the process takes the worker with it."""

    concurrency = 1

    def __init__(self, clock: Clock) -> None:
        self._performer = Performer(clock)

    def serve(self, take: Take, done: Done) -> None:
        with self._performer as performer:
            perform = performer.perform
            while (attempt := take()) is not None:
                done(attempt, perform(attempt))

    def stop_now(self) -> None:
        self._performer.deadline.stop_now()
