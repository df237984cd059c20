"""The facts about a job for `tenure explain`, and the explanation."""

from typing import NamedTuple

from msgspec import Struct

from tenure.backends.records import JobRecord, WorkerRecord
from tenure.definition.failure import Failure
from tenure.events import Run
from tenure.guards.guard import Guard
from tenure.guards.states import Paused, State
from tenure.wire.envelope import Envelope


class Reason(Struct, frozen=True, kw_only=True):
    """One reason: `code` is for programs, `text` for people, `advice` says what to do.

    `since` and `until` are UTC microseconds. `job` is the job for which this one waits. `worker` is the worker that
    runs one of the two.
    """

    code: str
    text: str
    since: int | None = None
    until: int | None = None
    job: str | None = None
    worker: str | None = None
    advice: str | None = None


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """The result of one attempt; `failure` is None for the attempt that succeeded."""

    number: int
    failure: Failure | None = None
    run: Run | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """The first reason is the answer; the others apply as well."""

    reasons: tuple[Reason, ...]
    attempts: tuple[AttemptSummary, ...] = ()

    @property
    def answer(self) -> Reason:
        return self.reasons[0]


class Obstacle(Struct, frozen=True):
    """Why the message cannot run with this app's handlers and keys; it is dead at `until`, 0 means at once."""

    code: str
    text: str
    until: int = 0


class Guarded(NamedTuple):
    """A guard of the job, and its state now."""

    guard: Guard
    state: State | None


class ExplainFacts(Struct, frozen=True, kw_only=True):
    """All facts; `workers` is None without a registry of workers, `draining` has those that lease nothing, by id.

    `ahead` counts the ready jobs that run before this one, up to `max_read`; None if that is not known.
    """

    job: JobRecord
    now: int
    envelope: Envelope | None = None
    obstacle: Obstacle | None = None
    paused: Paused | None = None
    draining: dict[str, Paused] = {}
    guards: tuple[Guarded, ...] = ()
    workers: tuple[WorkerRecord, ...] | None = None
    ahead: int | None = None
    max_read: int = 0
    seconds: float = 15.0

    @property
    def listening(self) -> list[WorkerRecord]:
        return [worker for worker in self.workers or () if self.job.queue in worker.queues]

    def worker_of(self, id: str) -> str | None:
        """The worker that reports this job among its own."""
        return next((worker.id for worker in self.workers or () if id in worker.jobs), None)
