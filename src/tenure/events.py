"""What happened, as frozen values: one event a step, a batch at a time; listeners observe and change nothing."""

import logging
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

logger = logging.getLogger(__name__)


class Status(StrEnum):
    """What became of one delivery of a job."""

    ACKED = "acked"
    REQUEUED = "requeued"
    DEAD_LETTERED = "dead-lettered"
    SKIPPED_IDEMPOTENT = "skipped-idempotent"
    REJECTED = "rejected"
    POSTPONED = "postponed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    EMPTY = "empty"


class Run(Struct, frozen=True, array_like=True, gc=False):
    """What one attempt took: when it started (UTC microseconds), and for how long it waited and ran, in seconds.

    `wait` is only known of a job's first attempt; `memory` is the peak of its process so far, in bytes.
    `cpu` and `memory` are unknown where jobs share a thread, or were killed. `is_json` tells a result from a text.
    """

    handler: str
    started: int
    seconds: float
    wait: float | None = None
    cpu: float | None = None
    memory: int | None = None
    worker: str | None = None
    is_json: bool = False


class Settlement(Struct, frozen=True, gc=False):
    """One job of a settled batch; `failed` says that its handler ran and failed, `run` is there if it ran."""

    id: str
    queue: str
    status: Status
    attempt: int
    reason: str | None
    failed: bool
    run: Run | None = None


class Enqueued(Struct, frozen=True):
    queue: str
    handler: str
    ids: tuple[str, ...]


class Leased(Struct, frozen=True):
    queue: str
    ids: tuple[str, ...]


class Settled(Struct, frozen=True):
    settlements: tuple[Settlement, ...]


class LeaseLost(Struct, frozen=True):
    """A settle or renewal was refused because the lease had passed to another holder."""

    ids: tuple[str, ...]
    verb: str


class Reaped(Struct, frozen=True):
    """Leases of vanished workers came back; `crashed` were suspects and were charged."""

    ids: tuple[str, ...]
    crashed: tuple[str, ...]


class NotBuried(Struct, frozen=True):
    """Jobs of one queue could not be moved to the dead letters; a worker tries again, and nothing is lost."""

    queue: str
    ids: tuple[str, ...]
    error: str


class CancelRequested(Struct, frozen=True):
    """Somebody cancelled jobs: `ended` are those that waited, `asked` those that run and were asked to stop."""

    ended: tuple[str, ...]
    asked: tuple[str, ...]


class TickSkipped(Struct, frozen=True):
    """A tick of a schedule was left out; `tick` is its time in UTC microseconds."""

    schedule: str
    tick: int
    why: str | None


class TickSucceeded(Struct, frozen=True):
    """The job of a tick has ended well, on whichever worker."""

    schedule: str
    tick: int
    id: str


class TickFailed(Struct, frozen=True):
    """The job of a tick has ended otherwise, or could not be made."""

    schedule: str
    tick: int
    id: str
    why: str | None


class Notified(Struct, frozen=True):
    """What became of notices: `sent` or `failed` in one way, `limited` by their rate, or `dropped` as too many."""

    notification: str
    way: str | None
    outcome: str
    count: int = 1


class WorkerStarted(Struct, frozen=True):
    worker: str
    queues: tuple[str, ...]


class WorkerStopped(Struct, frozen=True):
    worker: str


Tick = TickSkipped | TickSucceeded | TickFailed
Work = Enqueued | Leased | Settled | LeaseLost | Reaped | NotBuried | CancelRequested
Event = Work | Tick | Notified | WorkerStarted | WorkerStopped
Listener = Callable[[Event], None]


class Listeners:
    """The listeners of one app, or of one worker of it, called in the order they were added."""

    def __init__(self, others: "Listeners | None" = None) -> None:
        """`others` are told first."""
        self._others = others
        self._listeners: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._listeners or self._others)

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        if self._others is not None:
            self._others.emit(event)
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s; the others were still called", type(event).__name__)
