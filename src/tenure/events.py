"""Events: what happened, as frozen values, one for each step of a batch; also the states of a job.

Listeners observe and cannot change anything.
"""

import inspect
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from tenure.errors import InvalidHandler

logger = logging.getLogger(__name__)


EndState = Literal["done", "dead", "cancelled", "expired"]
END_STATES: tuple[EndState, ...] = get_args(EndState)
ENDED_WELL = ("done", "cancelled", "expired")  # everything but dead letters
LIVE_STATES = ("ready", "delayed", "parked", "leased")
JOB_STATES = (*LIVE_STATES, *END_STATES)
CancelResult = Literal["cancelled", "asked", "too_late", "unknown"]
RescheduleResult = Literal["rescheduled", "running", "too_late", "unknown"]


class Status(StrEnum):
    """The result of one delivery of a job."""

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
    """One attempt: when it started (UTC microseconds), and how long it waited and ran, in seconds.

    `wait` is known only for the first attempt of a job; `memory` is the peak of its process so far, in bytes.
    `cpu` and `memory` are unknown if jobs share a thread or were killed. With `is_json`, the output is a JSON result.
    `output_length` is the full length, in characters, of an output that was cut before it was stored.
    `size` is the size of the message, in bytes.
    """

    handler: str
    started: int
    seconds: float
    wait: float | None = None
    cpu: float | None = None
    memory: int | None = None
    worker: str | None = None
    is_json: bool = False
    output_length: int | None = None
    size: int = 0


class Settlement(Struct, frozen=True, gc=False):
    """One job of a settled batch; `failed`: its handler ran and failed; `run` is set if it ran.

    `error` is the type and message of the failure, if there was one, and `place` the line that raised it: none if the
    worker ended the job, as it crashed, was killed, or was refused. `crashed`: its process died while it ran.
    """

    id: str
    queue: str
    status: Status
    attempt: int
    reason: str | None
    failed: bool
    run: Run | None = None
    error: str | None = None
    crashed: bool = False
    place: str | None = None


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
    """A settle or renewal was refused because another worker holds the lease now."""

    ids: tuple[str, ...]
    verb: str


class Reaped(Struct, frozen=True):
    """Leases of vanished workers on one queue were returned; jobs in `crashed` ran alone and were charged a crash."""

    queue: str
    ids: tuple[str, ...]
    crashed: tuple[str, ...]


class NotBuried(Struct, frozen=True):
    """Jobs of one queue could not be dead-lettered; a worker tries again, and no job is lost."""

    queue: str
    ids: tuple[str, ...]
    error: str


class CancelRequested(Struct, frozen=True):
    """A user cancelled jobs: those in `ended` were waiting, those in `asked` are running and were asked to stop."""

    ended: tuple[str, ...]
    asked: tuple[str, ...]


class TickSkipped(Struct, frozen=True):
    """A tick of a schedule was skipped; `tick` is its time in UTC microseconds."""

    schedule: str
    tick: int
    why: str | None


class TickStarted(Struct, frozen=True):
    """The job of a tick was enqueued or, of an inline schedule, begins to run; emitted once, by one scheduler."""

    schedule: str
    tick: int
    id: str


class TickSucceeded(Struct, frozen=True):
    """The job of a tick has succeeded, on any worker; `seconds` after its tick was recorded."""

    schedule: str
    tick: int
    id: str
    seconds: float | None = None


class TickFailed(Struct, frozen=True):
    """The job of a tick ended without success, or could not be enqueued."""

    schedule: str
    tick: int
    id: str
    why: str | None
    seconds: float | None = None


class Notified(Struct, frozen=True):
    """The `outcome` of notices: `sent` or `failed` by one way, `limited` by the rate, or `dropped` as too many."""

    notification: str
    way: str | None
    outcome: str
    count: int = 1


class OutboxRelayed(Struct, frozen=True):
    """The relay of an outbox has moved jobs to a backend: so many are stored there, or were before.

    `dropped` jobs had a `unique` text that is taken; `refused` jobs stay in the outbox and are tried again.
    """

    outbox: str
    backend: str
    relayed: int
    dropped: int
    refused: int


class WorkerStarted(Struct, frozen=True):
    worker: str
    queues: tuple[str, ...]


class WorkerStopped(Struct, frozen=True):
    worker: str


Tick = TickStarted | TickSkipped | TickSucceeded | TickFailed
Work = Enqueued | Leased | Settled | LeaseLost | Reaped | NotBuried | CancelRequested
Event = Work | Tick | Notified | OutboxRelayed | WorkerStarted | WorkerStopped
Listener = Callable[[Event], None]


class Listeners:
    """The listeners of one app, or of one of its workers, called in the order in which they were added."""

    def __init__(self, others: "Listeners | None" = None) -> None:
        """`others` are called first."""
        self._others = others
        self._listeners: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._listeners or self._others)

    def add(self, listener: Listener) -> None:
        if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004 - an object whose call is async
            raise InvalidHandler(
                f"the listener {listener!r} is async, and a listener is called in the thread of the step, where no "
                "event loop runs; make it a plain function, which may hand the event over to your loop with "
                "loop.call_soon_threadsafe"
            )
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
