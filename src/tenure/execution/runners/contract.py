"""What a runner is: it takes attempts until there are no more, and reports each outcome."""

from collections.abc import Callable
from typing import Protocol

from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome

Take = Callable[[], Attempt | None]
Done = Callable[[Attempt, Outcome], None]


class Runner(Protocol):
    """`concurrency` says how many attempts may run at once."""

    concurrency: int

    def serve(self, take: Take, done: Done) -> None:
        """Run attempts until `take` gives None; called once, in the worker's main thread."""
        ...

    def stop_now(self) -> None:
        """Interrupt what is running; its outcome is `interrupted`."""
        ...
