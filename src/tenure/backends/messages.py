"""What travels between producers, backends and workers: a message, a lease on it, and the verdict that settles it."""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from tenure.definition.failure import Failure
from tenure.errors import Cancelled
from tenure.events import Enqueued, Run
from tenure.guards.store import Change

Terminal = Literal["done", "cancelled", "expired"]
Charge = Literal["attempt", "crash", "vanished", "suspect"]
SUSPECT = -1  # stored in the place of the vanished count: the job is a suspect, and its lease is taken alone
DEFAULT_SUSPECT_AFTER = 3
SUSPECTS_PREFIX = "suspect:"
ON_REQUEST = Cancelled.reason  # the recorded reason of a job that a user cancelled


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """A sealed job on its way into a queue; `due` is UTC microseconds (0: at once), `delay` is seconds from now.

    While a job that was put with the same `unique` waits or runs, a message is not stored.
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
    tags: tuple[str, ...] = ()


class Lease(Struct, frozen=True, kw_only=True, gc=False):
    """The right to run one message until a time; `token` is the backend's own handle.

    `attempts` and `crashes` are what was counted before this lease; `due` is when the message could first start.
    `vanished` is how many workers vanished in a row while they held the job, or SUSPECT if this lease was taken alone.
    `is_unique` and `batch` are set by SQL backends: the job was put with a `unique` text, and what the leases that are
    stored as one row share.
    A `fault` says why the stored record cannot be read: the worker makes such a job a dead letter.
    """

    id: str
    queue: str
    body: bytes
    owner: str
    fence: int
    attempts: int
    crashes: int
    vanished: int
    priority: int
    due: int
    token: Any
    is_unique: bool = False
    fault: str | None = None
    batch: Any = None

    @property
    def alone(self) -> bool:
        """Whether this worker holds no other lease: if this one expires, the job crashed."""
        return self.vanished == SUSPECT


class Ack(Struct, frozen=True, kw_only=True):
    """The job has ended; the backend keeps a record of it.

    `run` describes its last attempt, if it ran.
    `follow` are messages that the worker has put before it settles: backends ignore them.
    `change`, here and below, is applied in the same step if the lease is still held, where the backend has guards.
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

    A charge of `vanished` counts one more process that died while it ran this job and others. With `suspect` the job
    waits apart until it is leased alone. Any other return ends the suspicion, unless it is `inconclusive`: then the job
    has not started, or was interrupted, and nothing was learned about it.
    """

    lease: Lease
    delay: float = 0.0
    charge: Charge | None = None
    inconclusive: bool = False
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

    The worker has applied `change` before it settles: backends ignore it.
    """

    lease: Lease
    key: str
    reason: str
    change: Change | None = None


Verdict = Ack | Nack | Abandon | Park


class ReapedLease(Struct, frozen=True):
    """A lease that expired; `crashed` when it was taken alone, and so its job was charged."""

    id: str
    queue: str
    crashed: bool


def suspects_key(queue: str) -> str:
    """The key under which the suspects of a queue are parked; no guard has such a key, so nothing wakes them."""
    return SUSPECTS_PREFIX + queue


def vanished_after(verdict: Nack) -> int:
    """What is stored as the vanished count after this return."""
    if verdict.charge == "suspect":
        return SUSPECT
    if verdict.inconclusive:
        return verdict.lease.vanished
    return max(0, verdict.lease.vanished) + 1 if verdict.charge == "vanished" else 0


def vanished_after_expiry(vanished: int, suspect_after: int) -> int:
    """What is stored as the vanished count after a lease with this count expired."""
    return SUSPECT if vanished == SUSPECT or vanished + 1 >= suspect_after else vanished + 1


def enqueued_events(messages: Iterable[Message]) -> list[Enqueued]:
    """One event for each queue and handler of messages that were put."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        kinds.setdefault((message.queue, message.handler), []).append(message.id)
    return [Enqueued(queue, handler, tuple(ids)) for (queue, handler), ids in kinds.items()]
