"""Rows as they come from the tables, and as they go to the next one."""

from typing import NamedTuple

from tenure.backends.contract import Charge


class Ready(NamedTuple):
    """A row of ready or delayed, without its queue."""

    key: int
    rank: int
    attempts: int
    crashes: int
    fence: int
    suspect: int


class Held(NamedTuple):
    """A lease that is locked, and what its job is."""

    key: int
    queue: str
    rank: int
    attempts: int
    crashes: int
    fence: int
    suspect: int
    asked: int
    id: str
    handler: str
    name: str | None
    enqueued: int
    due: int

    def ended(self, state: str) -> tuple[object, ...]:
        """As history keeps it, up to the time it was due."""
        job = (self.id, self.queue, self.rank, self.handler, self.name, state)
        return (*job, self.attempts, self.crashes, self.fence, self.enqueued, self.due)

    def back(self, charge: Charge | None) -> tuple[object, ...]:
        """As it waits again."""
        attempts, crashes = self.attempts + (charge == "attempt"), self.crashes + (charge == "crash")
        return (self.queue, self.rank, self.key, attempts, crashes, self.fence, int(charge == "suspect"))

    def reaped(self) -> tuple[object, ...]:
        """As it waits again after its holder vanished."""
        return (self.queue, self.rank, self.key, self.attempts, self.crashes + self.suspect, self.fence, 1)
