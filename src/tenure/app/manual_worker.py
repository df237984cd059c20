"""Manager: claims, runs and settles jobs one at a time, in a loop that the user writes.

A worker of Tenure does all this by itself; use a manager for code that already has such a loop.
A manager belongs to one thread. It leases its jobs for `seconds`; `touch` renews the leases.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import UNSET, structs

from tenure.app.dead_letters import DeadLetterQueue
from tenure.app.workers import DAY, BackendWorkers, new_worker_id
from tenure.backends.contract import trim_ended
from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park, Verdict
from tenure.backends.records import WorkerRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.definition import context
from tenure.definition.builder import JobBuilder
from tenure.definition.callables import completed
from tenure.definition.context import Context, LocalLink
from tenure.definition.failure import from_exception
from tenure.definition.handler import Registry
from tenure.definition.job_function import JobFunction
from tenure.definition.queues import Queue
from tenure.errors import InvalidJob, JobNotFound, UnknownHandler
from tenure.events import Enqueued, Event, Leased, LeaseLost, Settled
from tenure.execution.attempt import Attempt, RunningAttempt, to_context
from tenure.execution.error_outcome import facts_of_error
from tenure.execution.observers import call_observed
from tenure.execution.outcome import NOTHING_PRINTED, Outcome, success
from tenure.guards.states import Paused
from tenure.wire.envelope import wants_result
from tenure.worker.keeper import reaped_events
from tenure.worker.pipeline import settlement

_TRIM_CHUNK = 500
_DEBOUNCE_SECONDS = 5.0
_ENDED_STATES = ("done", "cancelled", "expired")


class Manager:
    """Returned by `app.manager()`."""

    def __init__(
        self,
        workers: BackendWorkers,
        registry: Registry,
        define: Callable[[str, Any], JobBuilder],
        dead_letters: Callable[[], DeadLetterQueue],
        seconds: float,
    ) -> None:
        """Without `touch`, claims expire and workers leave the registry after `seconds`."""
        self._workers = workers
        self._backend = workers.backend
        self._claims = ManualClaims(workers, seconds)
        self._registry = registry
        self._define = define
        self._dead_letters = dead_letters
        self._seconds = seconds
        self._touched: dict[str, float] = {}

    def add_alias(self, alias: str, queue: Queue) -> None:
        """Add another name for a queue; upper and lower case are equal."""
        self._workers.queues.alias(alias, self._queue_name(queue))

    def resolve_queue(self, queue: Queue) -> str:
        """The name of a queue, as `app.resolve_queue` finds it; an unknown name raises UnknownQueue."""
        return self._workers.queues.known(queue)

    def push(
        self, task: Any, data: Any = None, queue: Queue | None = None, available_at: datetime | None = None
    ) -> str:
        """Enqueue a job for a handler, on its own queue unless one is given; return the id.

        The task is the key of the handler, its function, its class, or an object of its class.
        """
        builder = self._define(_key_of(task, self._registry), data)
        if queue is not None:
            builder.queue(self._queue_name(queue))
        return (builder if available_at is None else builder.scheduled_at(available_at)).dispatch()

    def register_worker(self, queues: Iterable[Queue] = ()) -> WorkerRecord:
        """Register a worker for these queues, or for those of the settings."""
        now = self._workers.clock.now()
        worker = WorkerRecord(
            id=new_worker_id(),
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(map(self._queue_name, queues or self._workers.settings.queues)),
            runner="manager",
            concurrency=1,
            started_at=now,
            seen_at=now,
        )
        return self._announce(worker)

    def touch(self, worker: WorkerRecord, debounce: float = _DEBOUNCE_SECONDS) -> WorkerRecord:
        """Report that a worker is alive and renew its claims; at most once in `debounce` seconds."""
        if time.monotonic() - self._touched.get(worker.id, float("-inf")) < debounce:
            return worker
        self._claims.renew(worker.id)
        drain = self._claims.drain(worker.id)
        return self._announce(
            structs.replace(
                worker,
                seen_at=self._workers.clock.now(),
                draining_since=drain.since if drain else 0,
                draining_reason=drain.reason if drain else None,
            )
        )

    def unregister(self, worker: WorkerRecord) -> None:
        """Remove a worker; its unsettled jobs return to their place in the queue at no cost."""
        self._claims.hand_back(worker.id)
        self._touched.pop(worker.id, None)
        if self._workers.parts.workers is not None:
            self._workers.parts.workers.remove(worker.id)
            self._claims.forget_drain(worker.id)

    def delete_stale(self, grace: float | None = None) -> list[WorkerRecord]:
        """Remove the workers that were not seen for `grace` seconds; return them. The registry also expires them."""
        workers = self._workers.parts.workers
        if workers is None:
            return []
        latest = self._workers.clock.now() - round((self._seconds if grace is None else grace) * MICROSECOND)
        stale = [worker for worker in workers.alive() if worker.seen_at < latest]
        for worker in stale:
            workers.remove(worker.id)
        return stale

    def next_job(self, queues: Sequence[Queue], worker: WorkerRecord) -> "ManualJob | None":
        """Claim the next job of these queues, or of the worker's queues; None if no job may run now, or it drains."""
        names = [self._queue_name(queue) for queue in queues] or list(worker.queues)
        return self._claims.take(names, worker.id)

    def mark_complete(self, job: "ManualJob", result: Any = None) -> bool:
        """Settle the job as done; False if the claim was lost to another worker."""
        return self._claims.conclude(job, job.attempt, job.succeeded(result)) is not None

    def mark_failed(self, job: "ManualJob", error: BaseException) -> bool:
        """Make the job a dead letter, even if it has retries left; False if the claim was lost to another worker."""
        now, attempt = self._workers.clock.now(), job.with_retries(0)
        failed = job.failed(error, now, attempt)
        if failed.kind not in ("failed", "unfit"):  # the error asks for something else, but the caller decides
            failure = from_exception(error, now, attempt.number)
            failed = structs.replace(failed, kind="failed", failure=failure, reason=None, refusal=None)
        return self._claims.conclude(job, attempt, failed) is not None

    def retry(self, job: "ManualJob | str", error: BaseException | None = None) -> datetime | None:
        """Retry a claimed job, even without retries left, or a dead job by its id; return the time of the next attempt.

        The error may decide otherwise, as in every worker: `Fail`, `Cancel` and an error that the handler gives up on
        end the job. None if the job ended, or the claim was lost: the worker that has the job now decides.
        """
        now = self._workers.clock.now()
        if isinstance(job, str):
            self._replay(job)
            return to_datetime(now)
        attempt = job.with_retries(job.attempts + 1)
        verdict = self._claims.conclude(job, attempt, job.failed(error, now, attempt))
        return to_datetime(now + round(verdict.delay * MICROSECOND)) if isinstance(verdict, Nack) else None

    def reset_stuck(self, queues: Iterable[Queue] = ()) -> list[str]:
        """Return jobs with expired claims to their queue, as every worker does by itself; return their ids."""
        names = [self._queue_name(queue) for queue in queues]
        if not names:
            jobs = self._backend.jobs
            leased = [] if jobs is None else jobs.queues_with("leased")
            names = list(dict.fromkeys([*self._workers.settings.queues, *leased]))
        reaped = self._backend.reap(names, suspect_after=self._workers.settings.suspect_after)
        for event in reaped_events(reaped):
            self._claims.emit(event)
        return [each.id for each in reaped]

    def rotate(self, complete: float | None = None, failed: float | None = None) -> int:
        """Delete jobs that ended or died more than so many days ago; by default as the settings say, 0 deletes none."""
        retention = self._workers.settings.retention
        days = {state: getattr(retention, state) if complete is None else complete for state in _ENDED_STATES}
        days["dead"] = retention.dead if failed is None else failed
        return sum(self._trim(state, each) for state, each in days.items() if each)

    def _queue_name(self, queue: Queue) -> str:
        return self._workers.queues.resolve_or_add(queue)

    def _announce(self, worker: WorkerRecord) -> WorkerRecord:
        self._touched[worker.id] = time.monotonic()
        if self._workers.parts.workers is not None:
            self._workers.parts.workers.announce(worker, self._seconds)
        return worker

    def _replay(self, id: str) -> None:
        if not self._dead_letters().replay([id]):
            raise JobNotFound(f"no dead letter {id!r}; only a dead letter can be retried by its id")

    def _trim(self, state: str, days: float) -> int:
        before = self._workers.clock.now() - round(days * DAY * MICROSECOND)
        deleted = 0
        while chunk := trim_ended(self._workers.parts, state, before, _TRIM_CHUNK):
            deleted += chunk
        return deleted


def _key_of(task: Any, registry: Registry) -> str:
    if isinstance(task, str):
        return task
    if isinstance(task, JobFunction):
        return task.key
    cls = task if isinstance(task, type) else type(task)
    keys = [handler.key for handler in registry if handler.make is cls]
    if len(keys) != 1:
        found = (
            f"the keys {', '.join(keys)}; push one of them" if keys else "no key; call app.register(key, class) first"
        )
        raise UnknownHandler(f"the task class {cls.__qualname__!r} is registered under {found}")
    if task is not cls and getattr(task, "__dict__", None):
        raise InvalidJob(
            f"the task object of {cls.__qualname__!r} has attributes of its own, and a worker makes a new object: "
            "pass what it needs as data"
        )
    return keys[0]


class ManualClaims:
    """The claimed jobs by their ids; it takes and releases guards as a worker does."""

    def __init__(self, workers: BackendWorkers, seconds: float) -> None:
        """`seconds` is how long a claim lasts without being renewed."""
        self._workers = workers
        self._backend, self._pipeline, self._guards = workers.backend, workers.pipeline, workers.pipeline.guards
        self._seconds = seconds
        self._held: dict[str, ManualJob] = {}

    def take(self, queues: list[str], worker: str) -> "ManualJob | None":
        """The next job that may run; jobs that may not run are settled at once. None while a suspect is claimed."""
        if any(job.lease.alone for job in self._held.values()):
            return None
        self._guards.worker = worker
        while leases := self._lease(queues):
            self.emit(Leased(leases[0].queue, (leases[0].id,)))
            attempts, verdicts = self._pipeline.admit(leases)
            for verdict in verdicts:
                self._settle(verdict)
            if attempts and (job := self._opened(attempts[0], worker)):
                self._held[job.id] = job
                return job
        return None

    def conclude(self, job: "ManualJob", attempt: Attempt, outcome: Outcome) -> Verdict | None:
        """Settle the job by its outcome; return the verdict, or None if the claim was lost or handed back."""
        if job.is_settled or job.claims is not self:
            raise InvalidJob(f"job {job.id!r} is not claimed by this manager: it was settled, or is another manager's")
        if self._held.get(job.id) is not job:
            return None
        self._pipeline.worker = job.worker
        verdict = self._pipeline.conclude(attempt, outcome)
        was_held = self._settle(verdict)
        del self._held[job.id]  # last: if the backend cannot be reached, the caller may try again
        job.is_settled = was_held
        return verdict if was_held else None

    def renew(self, worker: str) -> None:
        held = self._of(worker)
        lost = self._backend.renew(held, seconds=self._seconds) if held else []
        lost += self._guards.renew([lease for lease in held if lease not in lost])
        self._guards.drop(lost)
        for lease in lost:
            self._held.pop(lease.id, None)
        if lost:
            self.emit(LeaseLost(tuple(lease.id for lease in lost), "renew"))

    def hand_back(self, worker: str) -> None:
        """Return all claimed jobs of a worker to their place in the queue, at no cost."""
        for lease in self._of(worker):
            del self._held[lease.id]
            self._settle(Nack(lease=lease, reason="unstarted", inconclusive=True))

    def drain(self, worker: str) -> Paused | None:
        """Since when and why a worker claims no more jobs; None if it may."""
        self._guards.worker = worker
        return self._guards.drain()

    def forget_drain(self, worker: str) -> None:
        self._guards.worker = worker
        self._guards.forget_drain()

    def emit(self, event: Event) -> None:
        self._workers.listeners.emit(event)

    def _of(self, worker: str) -> list[Lease]:
        return [job.lease for job in self._held.values() if job.worker == worker]

    def _lease(self, queues: list[str]) -> Sequence[Lease]:
        """Lease from the first queue that allows it and has a job; else, if nothing is claimed, lease a suspect."""
        room, _ = self._guards.room(queues)
        for portion, _ in room:
            if leases := self._backend.lease(portion, limit=1, seconds=self._seconds):
                return leases
        allowed = [queue for portion, _ in room for queue in portion]
        if self._held or not allowed or not self._backend.has_suspects(allowed):
            return ()
        return self._backend.lease_suspect(allowed, seconds=self._seconds)

    def _opened(self, attempt: Attempt, worker: str) -> "ManualJob | None":
        """The job with its payload; a job with an unfit payload becomes a dead letter, as in every worker."""
        now = self._workers.clock.now()
        try:
            value = attempt.handler.unpack(attempt.envelope.payload, attempt.envelope.payload_version)
        except Exception as error:  # declared types run their own code when they are built
            failure = from_exception(error, now, attempt.number)
            unfit = Outcome(kind="unfit", started=now, seconds=0.0, failure=failure)
            self._settle(self._pipeline.conclude(attempt, unfit))
            return None
        return ManualJob(attempt, value, worker, now, self)

    def _settle(self, verdict: Verdict) -> bool:
        """Settle guards in another store, put the following jobs, then settle the job: this order loses nothing.

        Return whether the claim was still held.
        """
        (verdict,) = self._guards.attach([verdict])
        self._guards.mark([verdict])
        if isinstance(verdict, (Ack, Abandon)) and verdict.follow:
            new = set(self._backend.put(verdict.follow))
            for message in verdict.follow:
                if message.id in new:
                    self.emit(Enqueued(message.queue, message.handler, (message.id,)))
        lost = self._apply(verdict)
        self.emit(LeaseLost((verdict.lease.id,), "settle") if lost else Settled((settlement(verdict),)))
        return not lost

    def _apply(self, verdict: Verdict) -> list[Lease]:
        match verdict:
            case Ack():
                return self._backend.ack([verdict])
            case Nack():
                return self._backend.nack([verdict])
            case Abandon():
                return self._backend.abandon([verdict])
            case Park():
                return [] if self._backend.parking is None else self._backend.parking.park([verdict])


class ManualJob:
    """Returned by `next_job`: `task` is the handler's key, `data` the payload in its declared type."""

    def __init__(self, attempt: Attempt, data: Any, worker: str, now: int, claims: ManualClaims) -> None:
        envelope = attempt.envelope
        self.claims, self.is_settled = claims, False
        self.attempt, self.worker, self.lease = attempt, worker, _lease(attempt)
        self.id, self.queue, self.task, self.name = self.lease.id, self.lease.queue, envelope.job, envelope.name
        self.attempts, self.max_retries = self.lease.attempts, envelope.max_retries
        self.meta: dict[str, Any] = {} if envelope.meta is UNSET else envelope.meta
        self.data = data
        self._started, self._started_clock = now, time.perf_counter()

    @property
    def may_retry(self) -> bool:
        """Whether the job has retries left after this attempt."""
        return self.attempts < self.max_retries

    @property
    def available_at(self) -> datetime:
        return to_datetime(self.lease.due)

    def run(self) -> Any:
        """Call the handler in this thread; the caller settles the job with what it returns or raises."""
        job_context = to_context(self.attempt, self.data, LocalLink())
        token = context.enter(job_context)
        try:
            run = RunningAttempt(self.attempt, job_context, self._started, self._started_clock)
            return call_observed(run, partial(self._call, job_context))
        finally:
            context.leave(token)

    def _call(self, job_context: Context) -> Any:
        handler = self.attempt.handler
        instance = () if handler.make is None else (handler.make(),)
        result = handler.call(*instance, job_context, self.data)
        return asyncio.run(completed(result, "the handler")) if isinstance(result, Awaitable) else result

    def succeeded(self, result: Any) -> Outcome:
        pass_on = wants_result(self.attempt.envelope)
        return success(result, NOTHING_PRINTED, self._started, self._seconds(), pass_on=pass_on)

    def failed(self, error: BaseException | None, now: int, attempt: Attempt) -> Outcome:
        """The outcome of this attempt: what the error asks for, or a failure."""
        facts: dict[str, Any] = {"kind": "failed"} if error is None else facts_of_error(error, attempt, now)
        return Outcome(started=self._started, seconds=self._seconds(), **facts)

    def with_retries(self, retries: int) -> Attempt:
        """The attempt, with another number of allowed retries."""
        return structs.replace(self.attempt, envelope=structs.replace(self.attempt.envelope, max_retries=retries))

    def _seconds(self) -> float:
        return time.perf_counter() - self._started_clock


def _lease(attempt: Attempt) -> Lease:
    lease: Lease = attempt.ticket
    return lease
