"""What a runner is: it takes attempts until there are no more, and reports each outcome."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tenure.definition.progress import Progress
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome

Done = Callable[[Attempt, Outcome], None]


class Source(Protocol):
    """Where attempts come from."""

    def take(self) -> Attempt | None:
        """The next attempt, as soon as there is one; None once there will be no more."""
        ...

    def take_up_to(self, most: int) -> list[Attempt]:
        """What there is now, without waiting."""
        ...

    def put_back(self, attempts: Sequence[Attempt]) -> None:
        """Attempts that were taken and did not start, in their order; they come first again."""
        ...

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Have this called whenever there is more to take, or nothing more to come."""
        ...

    def resize(self, concurrency: int) -> None:
        """So many attempts can run at once from now on."""
        ...

    def is_over(self) -> bool:
        """Whether nothing waits and nothing more will come."""
        ...


class Runner(Protocol):
    """`concurrency` says how many attempts may run at once, to begin with.

    `ticked` is when its loop last came round, by the monotonic clock; None while it may take as long as a job does.
    """

    concurrency: int
    ticked: float | None

    def serve(self, source: Source, done: Done) -> None:
        """Run attempts until the source is over, or this process is worn.

        Called once, and everything it starts belongs to that thread.
        """
        ...

    def stop_now(self) -> None:
        """Interrupt what is running; its outcome is `interrupted`."""
        ...

    def reload(self) -> bool:
        """Run what comes from now on with freshly imported code; False when only a new process could."""
        ...

    def lose(self, tickets: Sequence[object]) -> None:
        """Stop the attempts with these tickets, if that is possible: their leases have passed to others."""
        ...

    def cancel(self, tickets: Sequence[object]) -> None:
        """Interrupt the attempts with these tickets, and then stop them if that is possible; asked again and again.

        Their outcome is `cancelled`, unless they succeed all the same.
        """
        ...

    def progress(self) -> Sequence[tuple[Any, Progress]]:
        """The tickets of running attempts that have told how far they are."""
        ...
