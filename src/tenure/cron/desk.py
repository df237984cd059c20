"""Desk: what a scheduler asks of the app whose schedules it keeps."""

from collections.abc import Sequence
from typing import Protocol

from tenure.backends.contract import Message
from tenure.backends.ledger import Note, TickRecord
from tenure.definition.job import Job
from tenure.events import Tick


class Desk(Protocol):
    """Everything that is not a decision about time."""

    def seal(self, job: Job) -> Message:
        """The message of a job; raises when it could never run."""
        ...

    def enter(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        """Record ticks that nobody has entered, with their messages put; returns the ids of those that are new."""
        ...

    def promote(self, messages: Sequence[Message]) -> None:
        """Put the messages of ticks that are recorded and not enqueued yet, and note that they are."""
        ...

    def run(self, job: Job) -> None:
        """Run a job here and now, for one attempt; raises when it does not succeed."""
        ...

    def endings(self, ticks: Sequence[TickRecord]) -> list[Note]:
        """What became of those of these ticks whose jobs have ended, though nobody told."""
        ...

    def tell(self, event: Tick) -> None: ...
