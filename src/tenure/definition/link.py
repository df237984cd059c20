"""Link: how a running attempt and whoever watches it hear of each other, without waiting for one another."""

from typing import Protocol

from tenure.definition.progress import Progress


class Link(Protocol):
    """One for each attempt; `cancelled` turns true when somebody wants the job cancelled."""

    @property
    def cancelled(self) -> bool: ...

    def tell(self, done: float, total: float | None) -> None:
        """So much is done, of so much in all."""
        ...


class LocalLink:
    """To a watcher in the same process."""

    __slots__ = ("cancelled", "progress")

    def __init__(self) -> None:
        self.cancelled = False
        self.progress: Progress | None = None

    def tell(self, done: float, total: float | None) -> None:
        self.progress = Progress(done, total)
