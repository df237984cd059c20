"""Manager: claim, run and settle jobs one at a time, in a loop of one's own, by the verbs that workers use.

A worker of Tenure does all this by itself; a manager is for code that was written around such a loop.
A manager belongs to one thread. What it claims is leased for `seconds`, and `touch` renews that.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from tenure.app.claimed import ClaimedJob
from tenure.app.claims import Claims
from tenure.app.workshop import DAY, Workshop, identity
from tenure.backends.asking import DeadLetters, Listable
from tenure.backends.contract import Nack
from tenure.backends.upkeep import Maintained, Roster, WorkerRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.definition.builder import JobBuilder
from tenure.definition.queues import QueueClass
from tenure.errors import BackendError, JobNotFound
from tenure.events import Reaped

_CHUNK = 500
_DEBOUNCE = 5.0
_ENDED = ("done", "cancelled", "expired")
Queue = str | QueueClass


class Manager:
    """What `app.manager()` returns."""

    def __init__(self, workshop: Workshop, define: Callable[[str, Any], JobBuilder], seconds: float) -> None:
        """`seconds` is how long a claim lasts, and a worker is known, without being touched."""
        self._shop = workshop
        self._backend = workshop.backend
        self._claims = Claims(workshop, seconds)
        self._define = define
        self._seconds = seconds
        self._touched: dict[str, float] = {}

    def add_alias(self, alias: str, queue: Queue) -> None:
        """Another name for a queue, in any case."""
        self._shop.queues.alias(alias, self.resolve_queue(queue))

    def resolve_queue(self, queue: Queue) -> str:
        """The name of a queue, from a name, an alias, a class or an instance."""
        if not isinstance(queue, str):
            self._shop.queues.add(queue)
        return self._shop.queues.resolve(queue)

    def push(
        self, task: str, data: Any = None, queue: Queue | None = None, available_at: datetime | None = None
    ) -> str:
        """Put a job for this handler on a queue, that of the handler unless given, and return its id."""
        builder = self._define(task, data)
        if queue is not None:
            builder.queue(self.resolve_queue(queue))
        return (builder if available_at is None else builder.scheduled_at(available_at)).dispatch()

    def register_worker(self, queues: Iterable[Queue] = ()) -> WorkerRecord:
        """Make a worker known to others, on these queues or those of the settings."""
        now = self._shop.clock.now()
        worker = WorkerRecord(
            id=identity(),
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(map(self.resolve_queue, queues or self._shop.settings.queues)),
            runner="manager",
            concurrency=1,
            started_at=now,
            seen_at=now,
        )
        return self._greet(worker)

    def touch(self, worker: WorkerRecord, debounce: float = _DEBOUNCE) -> WorkerRecord:
        """Say that a worker lives, and renew what it has claimed; at most once in `debounce` seconds."""
        if time.monotonic() - self._touched.get(worker.id, float("-inf")) < debounce:
            return worker
        self._claims.renew(worker.id)
        return self._greet(structs.replace(worker, seen_at=self._shop.clock.now()))

    def unregister(self, worker: WorkerRecord) -> None:
        """A worker ends; what it has claimed and not settled goes back to its place at no cost."""
        self._claims.hand_back(worker.id)
        self._touched.pop(worker.id, None)
        if isinstance(self._backend, Roster):
            self._backend.part(worker.id)

    def delete_stale(self, grace: float | None = None) -> list[WorkerRecord]:
        """Forget the workers that were not seen for so many seconds; who they were. All are forgotten in time."""
        if not isinstance(self._backend, Roster):
            return []
        latest = self._shop.clock.now() - round((self._seconds if grace is None else grace) * MICROSECOND)
        stale = [worker for worker in self._backend.workers() if worker.seen_at < latest]
        for worker in stale:
            self._backend.part(worker.id)
        return stale

    def next_job(self, queues: Sequence[Queue], worker: WorkerRecord) -> ClaimedJob | None:
        """Claim the next job of these queues, or of the worker's own; None when nothing may run now."""
        names = [self.resolve_queue(queue) for queue in queues] or list(worker.queues)
        return self._claims.take(names, worker.id)

    def mark_complete(self, job: ClaimedJob, result: Any = None) -> bool:
        """The job is done; False when its claim had passed to another holder."""
        return self._claims.conclude(job, job.attempt, job.succeeded(result))[1]

    def mark_failed(self, job: ClaimedJob, error: BaseException) -> bool:
        """The job is dead, whatever its budget; False when its claim had passed to another holder."""
        return self._claims.conclude(job, job.with_budget(0), job.failed(error, self._shop.clock.now()))[1]

    def retry(self, job: ClaimedJob | str, error: BaseException | None = None) -> datetime | None:
        """Have a claimed job tried again, whatever its budget, or a dead one by its id; when that is.

        None when the claim had passed to another holder, who decides now.
        """
        now = self._shop.clock.now()
        if isinstance(job, str):
            self._replay(job)
            return to_datetime(now)
        verdict, is_ours = self._claims.conclude(job, job.with_budget(job.attempts + 1), job.failed(error, now))
        delay = verdict.delay if isinstance(verdict, Nack) else 0.0
        return to_datetime(now + round(delay * MICROSECOND)) if is_ours else None

    def reset_stuck(self, queues: Iterable[Queue] = ()) -> list[str]:
        """Return jobs to their place whose claim is over, as every worker does by itself; their ids."""
        names = [self.resolve_queue(queue) for queue in queues]
        if not names:
            leased = self._backend.queues_with("leased") if isinstance(self._backend, Listable) else []
            names = list(dict.fromkeys([*self._shop.settings.queues, *leased]))
        reaped = self._backend.reap(names)
        if reaped:
            crashed = tuple(each.id for each in reaped if each.crashed)
            self._claims.tell(Reaped(tuple(each.id for each in reaped), crashed))
        return [each.id for each in reaped]

    def rotate(self, complete: float | None = None, failed: float | None = None) -> int:
        """Delete jobs that ended, or died, more than so many days ago: as the settings say unless given, 0 keeps."""
        kept = self._shop.settings.retention
        days = {state: getattr(kept, state) if complete is None else complete for state in _ENDED}
        days["dead"] = kept.dead if failed is None else failed
        return sum(self._trim(state, each) for state, each in days.items() if each)

    def _greet(self, worker: WorkerRecord) -> WorkerRecord:
        self._touched[worker.id] = time.monotonic()
        if isinstance(self._backend, Roster):
            self._backend.greet(worker, self._seconds)
        return worker

    def _replay(self, id: str) -> None:
        if not isinstance(self._backend, DeadLetters):
            raise BackendError(f"{type(self._backend).__name__} keeps no dead letters to try again")
        if not self._backend.replay([id]):
            raise JobNotFound(f"no job {id!r} is dead here; only those can be tried again by their id")

    def _trim(self, state: str, days: float) -> int:
        before = self._shop.clock.now() - round(days * DAY * MICROSECOND)
        deleted = 0
        while isinstance(self._backend, Maintained) and (chunk := self._backend.trim(state, before, _CHUNK)):
            deleted += chunk
        return deleted
