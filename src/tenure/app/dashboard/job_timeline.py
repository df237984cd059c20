"""The timeline of a job: its attempts and the waits between them, the newest first, so that the times add up."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct, structs

from tenure.app.dashboard.job_now import guard_name
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.job_info import AttemptInfo, JobInfo
from tenure.redaction import Redactor

_SHORTEST_WAIT = timedelta(milliseconds=1)
_OUTCOMES = {  # the words and the tone of the end of an attempt
    "running": ("runs", "leased"),
    "done": ("succeeded", "done"),
    "cancelled": ("was cancelled", "cancelled"),
    "expired": ("expired", "expired"),
    "failed": ("failed", "dead"),
    "crashed": ("crashed", "dead"),
    "vanished": ("vanished with its worker", "dead"),
}


class Step(Struct, frozen=True, kw_only=True):
    """One entry: an attempt, a wait, the enqueue or the end. `tone` is the state whose sign it has.

    `place` says where or for what. `until` is the time for which a job waits now.
    """

    tone: str
    title: str
    place: str = ""
    start: datetime | None = None
    seconds: float | None = None
    until: datetime | None = None
    cpu: float | None = None
    memory: int | None = None
    error_type: str | None = None
    error: str | None = None
    trace: str | None = None
    is_open: bool = False


class Present(Struct, frozen=True, kw_only=True):
    """What the record of a job does not say: the `worker` that runs it, and since when, if that worker reports it.

    `backoff` is the strategy of its retries.
    """

    now: datetime
    redactor: Redactor
    backoff: str | None = None
    worker: str | None = None
    started: datetime | None = None


def timeline(job: JobRecord, info: JobInfo, present: Present) -> tuple[Step, ...]:
    """The steps, the newest first; the traceback of the newest failure is open."""
    steps = list(_steps(job, info, present))
    steps.reverse()
    newest = next((number for number, step in enumerate(steps) if step.trace), None)
    return tuple(structs.replace(step, is_open=number == newest) for number, step in enumerate(steps))


def _steps(job: JobRecord, info: JobInfo, present: Present) -> Iterator[Step]:
    yield Step(tone="ready", title="Enqueued", start=info.enqueued_at)
    lost = job.attempts + job.crashes - len(info.failures)
    if lost > 0:
        title = f"{lost} earlier attempt{'s are' if lost > 1 else ' is'} no longer kept"
        yield Step(tone="dead", title=title)
    before: AttemptInfo | None = None
    for attempt in info.history:
        begun = attempt.started_at or (present.started if attempt.outcome == "running" else None)
        ended = info.enqueued_at if before is None else before.ended_at
        if begun is not None and ended is not None and begun - ended > _SHORTEST_WAIT and lost <= 0:
            place = "for its turn" if before is None else _backoff_text(present.backoff)
            yield Step(
                tone="delayed", title="Waited", place=place, start=ended, seconds=(begun - ended).total_seconds()
            )
        yield _attempt(attempt, begun, present)
        before, lost = attempt, 0
    yield from _last(job, info, before, present.backoff)


def _backoff_text(backoff: str | None) -> str:
    return f"backoff, {backoff}" if backoff else "before the next attempt"


def _attempt(attempt: AttemptInfo, begun: datetime | None, present: Present) -> Step:
    words, tone = _OUTCOMES.get(attempt.outcome, (attempt.outcome, "cancelled"))
    seconds, worker, redactor = attempt.seconds, attempt.worker, present.redactor
    if attempt.outcome == "running":
        worker = present.worker  # the record has the holder of the lease, which is a number
        seconds = None if begun is None else max(0.0, (present.now - begun).total_seconds())
    return Step(
        tone=tone,
        title=f"Attempt {attempt.number} {words}",
        place=worker or "",
        start=begun or attempt.ended_at,
        seconds=seconds,
        cpu=attempt.cpu,
        memory=attempt.memory,
        error_type=attempt.error_type,
        error=None if attempt.error is None else redactor.text(attempt.error),
        trace=redactor.text(attempt.traceback) if attempt.traceback else None,
    )


def _last(job: JobRecord, info: JobInfo, before: AttemptInfo | None, backoff: str | None) -> Iterator[Step]:
    """What follows the last attempt: the wait for the next one, or the end."""
    since = info.enqueued_at if before is None else before.ended_at
    match job.state:
        case "delayed":
            place = _backoff_text(backoff) if before is not None else "for its start"
            yield Step(tone="delayed", title="Waits", place=place, start=since, until=to_datetime(job.due_at))
        case "parked":
            yield Step(tone="parked", title="Waits", place=f"for {guard_name(job)}", start=since)
        case "ready":
            yield Step(tone="ready", title="Waits", place="for its turn", start=since)
        case "dead":
            yield Step(tone="dead", title="Moved to the dead letters", place=info.reason or "", start=info.finished_at)
        case "cancelled" | "expired" if before is None or before.outcome != job.state:
            title = "Cancelled" if job.state == "cancelled" else "Expired"
            yield Step(tone=job.state, title=title, place=info.reason or "", start=info.finished_at)
        case "done" if before is None:
            yield Step(tone="done", title="Done", place=info.reason or "", start=info.finished_at)
