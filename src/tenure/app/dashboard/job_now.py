"""What a job does now, in a clause for a row of a list: told from its record, without reading anything else."""

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec import Struct

from tenure.backends.messages import suspects_key
from tenure.backends.records import JobRecord, WorkerRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.definition.context import Progress

_GUARDS = {  # the beginnings of the keys that `tenure.guards.states` makes
    "breaker:": "breaker",
    "lock:": "lock",
    "once:": "idempotency key",
    "most:handler:": "a slot of",
    "most:key:": "a slot of key",
    "rate:handler:": "the rate of",
    "rate:key:": "the rate of key",
    "rate:queue:": "the rate of queue",
}


class Clause(Struct, frozen=True, omit_defaults=True):
    """A text, followed by a time, a length in seconds and more text, as far as they are given."""

    text: str
    at: datetime | None = None
    seconds: float | None = None
    rest: str = ""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What all rows of a list share; `served` are the queues that live workers serve, None if that is not known.

    By the id of a job: `workers` that hold it, and when its attempt `started`, in UTC microseconds, as they report it.
    """

    now: int
    paused: Collection[str] = ()
    served: Collection[str] | None = None
    workers: Mapping[str, str] = {}
    started: Mapping[str, int] = {}


def now_of(job: JobRecord, around: Surroundings) -> Clause:
    """What the job waits for, how its attempt goes, or how it ended."""
    match job.state:
        case "leased":
            return _running(job, around)
        case "ready":
            return Clause(_ready(job, around))
        case "parked":
            return Clause(f"waits for {guard_name(job)}{_after_failures(job)}")
        case "delayed":
            return _delayed(job, around)
        case "done":
            return _done(job)
        case "dead":
            return Clause(_death(job))
    return Clause(job.reason or job.state)


def guard_name(job: JobRecord) -> str:
    """The guard that a parked job waits for."""
    key = job.waits_for or ""
    if key == suspects_key(job.queue):
        return "a process of its own: the last workers that had it vanished"
    kind = next((kind for kind in _GUARDS if key.startswith(kind)), None)
    return f"{_GUARDS[kind]} {key.removeprefix(kind)}" if kind else key or "a guard"


def host_of(worker: str) -> str:
    """The name of a worker in a list: ids are `host:process:number`."""
    return worker.partition(":")[0]


def workers_by_job(workers: Collection[WorkerRecord]) -> dict[str, str]:
    """The workers that hold jobs, by the id of the job."""
    return {id: worker.id for worker in workers for id in worker.jobs}


def started_by_job(workers: Collection[WorkerRecord]) -> dict[str, int]:
    """When the attempts that run now began, as far as workers report it."""
    return {job.id: job.started_at for worker in workers for job in worker.running}


def share_of(progress: Progress | None) -> float | None:
    return progress.done / progress.total if progress is not None and progress.total else None


def elapsed_of(job: JobRecord, around: Surroundings) -> float | None:
    """How long the attempt has been running, in seconds, if its worker reports it."""
    since = around.started.get(job.id)
    return None if since is None else max(0.0, (around.now - since) / MICROSECOND)


def _running(job: JobRecord, around: Surroundings) -> Clause:
    if (job.lease_until or around.now) < around.now:
        return Clause("its lease has expired")
    worker = around.workers.get(job.id)
    where = f"on {host_of(worker)}" if worker else ""
    if job.cancel_asked:
        return Clause("is asked to stop,", rest=where) if where else Clause("is asked to stop")
    share, elapsed = share_of(job.progress), elapsed_of(job, around)
    done = "" if share is None else f"{share * 100:.0f}\N{NO-BREAK SPACE}%"
    if not done and job.progress is not None:
        done = f"{job.progress} done"
    if elapsed is not None:
        return Clause(f"{done}," if done else "runs", None, elapsed, f"so far {where}".strip())
    return Clause(", ".join(filter(None, (done, where))) or "runs") if done else Clause(f"runs {where}".strip())


def _ready(job: JobRecord, around: Surroundings) -> str:
    if job.queue in around.paused:
        return f"its queue is paused{_after_failures(job)}"
    if around.served is not None and job.queue not in around.served:
        return f"no worker listens on {job.queue}{_after_failures(job)}"
    return f"waits for its turn{_after_failures(job)}"


def _delayed(job: JobRecord, around: Surroundings) -> Clause:
    if job.due_at <= around.now:
        return Clause(f"is due{_after_failures(job)}")
    if job.attempts + job.crashes:
        return Clause("next attempt at", to_datetime(job.due_at))
    return Clause("tried again at" if job.fence else "starts at", to_datetime(job.due_at))


def _done(job: JobRecord) -> Clause:
    if job.run is None:
        return Clause(job.reason or "done")
    worker = job.run.worker
    return Clause("took", None, job.run.seconds, f"on {host_of(worker)}" if worker else "")


def _death(job: JobRecord) -> str:
    last = job.failures[-1] if job.failures else None
    error = "" if last is None else f"{last.type}: {last.message}"
    if error and job.reason in (None, "retries_exhausted", "gave_up"):
        return error
    return ": ".join(filter(None, (job.reason, error))) or "dead"


def _after_failures(job: JobRecord) -> str:
    count = job.attempts + job.crashes
    return f", after {count} failure{'s' if count > 1 else ''}" if count else ""
