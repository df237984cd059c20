"""What a backend is: eight verbs on batches, and small protocols for what producers and workers need besides.

What people ask of a backend is in `asking.py`, what it takes to run one in `upkeep.py`.

A backend moves opaque bytes and grants leases; it never signs, decides, counts or logs outcomes.
Every settle and renewal checks the owner and the fence of the lease, and names the leases that were lost.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from tenure.definition.failure import Failure
from tenure.errors import Cancelled
from tenure.events import Run
from tenure.guards.store import Change

Terminal = Literal["done", "cancelled", "expired"]
Charge = Literal["attempt", "crash", "suspect"]
ON_REQUEST = Cancelled.reason  # the reason kept with a job that somebody cancelled


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """A sealed job on its way into a queue; `due` is UTC microseconds (0: at once), `delay` is seconds from now.

    While a job that was put with the same `unique` waits or runs, a message is not stored.
    The id of one that `is_new` was made for it just now: no job can have it, so nobody needs to look.
    """

    id: str
    queue: str
    body: bytes
    handler: str
    name: str | None = None
    priority: int = 5
    delay: float = 0.0
    due: int = 0
    unique: str | None = None
    is_new: bool = False


class Lease(Struct, frozen=True, kw_only=True, gc=False):
    """The right to run one message until a time; `token` is the backend's own handle.

    `attempts` and `crashes` are what was counted before this lease; `due` is when the message could first start.
    A `suspect` came back from a worker that vanished: if this lease expires too, that is a crash.
    """

    id: str
    queue: str
    body: bytes
    owner: str
    fence: int
    attempts: int
    crashes: int
    suspect: bool
    priority: int
    due: int
    token: Any


class Ack(Struct, frozen=True, kw_only=True):
    """The job is over; what is kept is a history row without the body.

    `run` is what its last attempt took, if it ran.
    `follow` are messages that whoever settles has put before: backends need not look at them.
    `change`, here and below, is applied in the same step where the backend is a Store, if the lease is still held.
    """

    lease: Lease
    state: Terminal = "done"
    seconds: float = 0.0
    output: str | None = None
    reason: str | None = None
    follow: tuple[Message, ...] = ()
    change: Change | None = None
    run: Run | None = None


class Nack(Struct, frozen=True, kw_only=True):
    """The job goes back to its place after `delay` seconds; `charge` says what is counted, if anything.

    A charge of `suspect` counts nothing yet: the job is leased alone next, and if that lease expires, it crashed.
    """

    lease: Lease
    delay: float = 0.0
    charge: Charge | None = None
    failure: Failure | None = None
    reason: str | None = None
    change: Change | None = None
    run: Run | None = None


class Abandon(Struct, frozen=True, kw_only=True):
    """The job goes to the dead letters, with its bytes and the reason."""

    lease: Lease
    reason: str
    charge: Charge | None = None
    failure: Failure | None = None
    follow: tuple[Message, ...] = ()
    change: Change | None = None
    run: Run | None = None


class Park(Struct, frozen=True, kw_only=True):
    """The job waits in its place, at no cost, until the guard `key` changes or its time to try again has come.

    `change` is what whoever settles has applied before: backends need not look at it.
    """

    lease: Lease
    key: str
    reason: str
    change: Change | None = None


Verdict = Ack | Nack | Abandon | Park


class Reaped(Struct, frozen=True):
    """A lease that expired; `crashed` when its job was a suspect already, and so was charged."""

    id: str
    queue: str
    crashed: bool


class Backend(Protocol):
    """Where messages wait; see the conformance suite for what each verb promises."""

    def put(self, messages: Sequence[Message]) -> list[str]:
        """Store messages; returns the ids that are new: one that is known, even of an ended job, is stored once."""
        ...

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """Grant up to `limit` leases, from the first queue that has any on; a suspect is granted alone."""
        ...

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        """End jobs; returns the leases that were lost."""
        ...

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        """Return jobs to their place; returns the leases that were lost."""
        ...

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        """Move jobs to the dead letters, atomically; returns the leases that were lost."""
        ...

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """Push the expiry of leases; returns the leases that were lost."""
        ...

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        """Return what expired to its place."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Transactional(Protocol):
    """Backends that can store messages inside a transaction of the caller's."""

    def put_in(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        """As put, on the caller's connection: messages exist when it commits, and never did when it rolls back.

        Workers find them when they next look; with `wake` they are told at the commit, where that can be done.
        """
        ...


@runtime_checkable
class Parking(Protocol):
    """Backends that are a Store too, and where jobs wait for its keys without being looked at."""

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        """Let jobs wait for their keys; one whose key is free by now is ready again. Returns the lost leases."""
        ...

    def rouse(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        """Wake the heads of these keys, or of up to `limit` of all, whose time to try again has come.

        Returns the keys that may still have waiters, and in how many seconds to ask again.
        """
        ...


@runtime_checkable
class Exclusive(Protocol):
    """Backends that keep jobs with the same `unique` apart."""

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        """The ids of the jobs that wait or run with these."""
        ...


@runtime_checkable
class InProcess(Protocol):
    """Backends whose messages never leave this process."""

    in_process: Literal[True]
