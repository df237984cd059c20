"""The rows of a list of jobs, made from records; the number of allowed attempts is read once for each job."""

import time
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.job_now import Clause, Surroundings, now_of, started_by_job, workers_by_job
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND, to_datetime, to_microseconds
from tenure.events import ENDED_WELL
from tenure.wire.envelope import peek

_WAITING = ("ready", "delayed", "parked")
_READ_SECONDS = 0.02  # for the messages of a page, which only show how many attempts are allowed
_KEPT_TRIES = 20_000


class JobRow(Struct, frozen=True, kw_only=True):
    """One job; `tries` counts the attempts that were started, `max_tries` those that are allowed to one that failed.

    `age` is the time from the enqueue to the end, or to now. `changes` are the actions that its state allows.
    """

    id: str
    state: str
    handler: str
    name: str | None
    queue: str
    tries: int
    max_tries: int | None
    now: Clause
    enqueued_at: datetime
    age: float
    changes: tuple[str, ...] = ()


def job_rows(sources: Sources, access: Access, jobs: Sequence[JobRecord]) -> tuple[JobRow, ...]:
    around, allowed = surroundings(sources), _allowed_tries(sources, jobs)
    return tuple(_row(sources, access, job, around, allowed.get(job.id)) for job in jobs)


def surroundings(sources: Sources) -> Surroundings:
    """What the last figures say about queues and workers."""
    figures = sources.figures
    return Surroundings(
        now=to_microseconds(sources.now),
        paused={each.name for each in figures.paused},
        served=None if figures.workers is None else {queue for each in figures.workers for queue in each.queues},
        workers=workers_by_job(figures.workers or ()),
        started=started_by_job(figures.workers or ()),
    )


def changes_of(job: JobRecord) -> tuple[str, ...]:
    """The actions that the state of a job allows."""
    if job.state in _WAITING:
        is_failed = job.state == "delayed" and job.attempts + job.crashes > 0
        return ("retry", "cancel", "reschedule") if is_failed else ("cancel", "reschedule")
    if job.state == "leased":
        return ("cancel",)
    return ("retry", "delete") if job.state == "dead" or job.state in ENDED_WELL else ()


def _row(sources: Sources, access: Access, job: JobRecord, around: Surroundings, allowed: int | None) -> JobRow:
    name, now = job.name, now_of(job, around)
    if access.redact is not None:
        info = access.redact(sources.app.jobs.info(job, in_list=True))
        name, now = info.name, now if job.state != "dead" else Clause(info.error or info.reason or "dead")
    return JobRow(
        id=job.id,
        state=job.state,
        handler=job.handler,
        name=name,
        queue=job.queue,
        tries=job.runs,
        max_tries=None if allowed is None else max(allowed, job.runs),
        now=now,
        enqueued_at=to_datetime(job.enqueued_at),
        age=max(0.0, ((job.finished_at or around.now) - job.enqueued_at) / MICROSECOND),
        changes=changes_of(job),
    )


def _allowed_tries(sources: Sources, jobs: Sequence[JobRecord]) -> dict[str, int]:
    """How many attempts each job that failed may have, from its message, which never changes.

    Those that take too long are missing; the next request reads more of them.
    """
    known: dict[str, int] = sources.kept.setdefault("allowed tries", {})
    give_up = time.monotonic() + _READ_SECONDS
    for job in jobs:
        if not job.attempts + job.crashes or job.id in known or time.monotonic() > give_up:
            continue
        record = sources.parts.find(job.id)
        if record is None or not record.body:
            continue
        if len(known) >= _KEPT_TRIES:
            known.clear()
        try:
            known[job.id] = peek(record.body).max_retries + 1
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # a forged message; the page of the job says so
    return known
