"""Records: what a backend knows about a job, a worker or its server, as plain values for people and tools."""

from typing import Literal

from msgspec import Struct

from tenure.backends.messages import Message
from tenure.definition.context import Progress
from tenure.definition.failure import Failure
from tenure.events import Run

CancelResult = Literal["cancelled", "asked", "too_late", "unknown"]
RescheduleResult = Literal["rescheduled", "running", "too_late", "unknown"]


class JobRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a backend knows about one job; times are UTC microseconds.

    `run` describes the last attempt of an ended job; `failures` lists the attempts that failed.
    """

    id: str
    queue: str
    handler: str
    name: str | None
    state: str
    priority: int
    attempts: int
    crashes: int
    fence: int
    enqueued_at: int
    due_at: int
    finished_at: int | None = None
    owner: str | None = None
    lease_until: int | None = None
    seconds: float | None = None
    reason: str | None = None
    output: str | None = None
    failures: tuple[Failure, ...] = ()
    body: bytes | None = None
    progress: Progress | None = None
    cancel_asked: bool = False
    waits_for: str | None = None
    run: Run | None = None


class NewDeadLetter(Struct, frozen=True, kw_only=True):
    """A message to store directly among the dead letters, with what is recorded about it."""

    message: Message
    reason: str
    attempts: int = 0
    failure: Failure | None = None


class LaneRecord(Struct, frozen=True, kw_only=True):
    """A lane of a worker, as other processes see it; a lane that a command line made has no name."""

    name: str
    queues: tuple[str, ...]
    runner: str
    concurrency: int


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker, as other processes see it; `id` is new at every start, times are UTC microseconds.

    `jobs` are the ids that the worker holds; `runner` and `concurrency` sum up its lanes.
    `rates` are the jobs that it ended per second, by queue, over about a minute.
    `live` is the number of unfinished jobs of each queue at `live_at`, if this worker counted them.
    `handlers` and `kids` name the handlers and keys that the worker has; workers of older releases leave them empty.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    runner: str
    concurrency: int
    started_at: int
    seen_at: int
    jobs: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    lanes: tuple[LaneRecord, ...] = ()
    rates: dict[str, float] = {}
    live: dict[str, int] = {}
    live_at: int = 0
    handlers: tuple[str, ...] = ()
    kids: tuple[str, ...] = ()


class Fact(Struct, frozen=True):
    """A statement about a backend's configuration; a `warning` is one that an operator should act on."""

    about: str
    text: str
    warning: bool = False
