"""What there is to know about a job that somebody asks about, and what is answered."""

from typing import NamedTuple

from msgspec import Struct

from tenure.backends.records import JobRecord, WorkerRecord
from tenure.definition.failure import Failure
from tenure.events import Run
from tenure.guards.guard import Guard
from tenure.guards.states import Paused, State
from tenure.wire.envelope import Envelope


class Reason(Struct, frozen=True, kw_only=True):
    """One thing that is so: `code` for programs, `text` for people, `advice` on what to do.

    `since` and `until` are UTC microseconds; `job` and `worker` are those that the job waits for, or that have it.
    """

    code: str
    text: str
    since: int | None = None
    until: int | None = None
    job: str | None = None
    worker: str | None = None
    advice: str | None = None


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """What happened in one attempt; `failure` is None for the one that ended the job well."""

    number: int
    failure: Failure | None = None
    run: Run | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """The first reason is the answer, the others hold besides."""

    reasons: tuple[Reason, ...]
    attempts: tuple[AttemptSummary, ...] = ()

    @property
    def answer(self) -> Reason:
        return self.reasons[0]


class Obstacle(Struct, frozen=True):
    """Why the message cannot run with this app's handlers and keys; `until` is when it dies of that, 0 at once."""

    code: str
    text: str
    until: int = 0


class Guarded(NamedTuple):
    """A guard of the job, and its state now."""

    guard: Guard
    state: State | None


class ExplainFacts(Struct, frozen=True, kw_only=True):
    """All that is known; `workers` is None where nobody keeps a roster, `ahead` where the place is not known.

    `ahead` counts the ready jobs that run before this one, up to `max_read`.
    """

    job: JobRecord
    now: int
    envelope: Envelope | None = None
    obstacle: Obstacle | None = None
    paused: Paused | None = None
    guards: tuple[Guarded, ...] = ()
    workers: tuple[WorkerRecord, ...] | None = None
    ahead: int | None = None
    max_read: int = 0
    seconds: float = 15.0

    @property
    def listening(self) -> list[WorkerRecord]:
        return [worker for worker in self.workers or () if self.job.queue in worker.queues]

    def worker_of(self, id: str) -> str | None:
        """The worker that says it has this job."""
        return next((worker.id for worker in self.workers or () if id in worker.jobs), None)
