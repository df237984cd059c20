"""CurrentTransaction: how a framework lets enqueues join the transaction that the calling thread has open.

The app asks it before each enqueue that names no connection. Without a framework there is none.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from tenure.definition.job import Job

T = TypeVar("T")


class CurrentTransaction(Protocol):
    """The transactions of a framework.

    `url` is that of the backend; `backend` is its name from the settings, or its URL, or None for that of the app.
    """

    def is_open(self, url: str) -> bool:
        """Whether the calling thread has a transaction open that an enqueue to this backend must wait for."""
        ...

    def enqueue(self, job: Job, backend: str | None, url: str) -> str:
        """Enqueue a job with the open transaction; return its id."""
        ...

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None, url: str) -> list[str]:
        """Enqueue jobs with the open transaction; return the ids of the stored ones."""
        ...

    async def in_thread(self, url: str, enqueue: Callable[[], T]) -> tuple[T] | None:
        """Call `enqueue` in the thread of the open transaction, from async code; None, uncalled, if none is open."""
        ...
