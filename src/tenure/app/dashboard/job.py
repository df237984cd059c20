"""The page of one job: why it does not run or how it ended, its attempts, facts, payload, result and followers."""

import json
from datetime import datetime
from typing import Any, ClassVar

from msgspec import UNSET, Struct

from tenure.app.client import open_message
from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.job_now import elapsed_of, share_of
from tenure.app.dashboard.job_rows import changes_of, surroundings
from tenure.app.dashboard.job_timeline import Present, Step, timeline
from tenure.app.explain.collect import collect_facts, explained
from tenure.app.explain.decide import explain
from tenure.app.explain.facts import Reason
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.job import DEFAULT_MAX_CRASHES
from tenure.definition.job_info import JobInfo
from tenure.errors import JobNotFound, MessageRejected, OutOfScope, PayloadErased
from tenure.events import END_STATES
from tenure.wire.envelope import Callbacks, Envelope, Follower, follower_id, guard_names
from tenure.wire.signing import kid_of

_ESTIMATE_FROM = 0.1  # of the work: an estimate from less is a guess


class Explained(Struct, frozen=True, kw_only=True):
    """A reason why the job does not run, how it runs or how it ended, as `tenure explain` gives it."""

    code: str
    text: str
    since: datetime | None = None
    until: datetime | None = None
    job: str | None = None
    worker: str | None = None
    advice: str | None = None


class JobProgress(Struct, frozen=True, kw_only=True):
    """`left` is the estimate of the seconds that remain, from a tenth of the work on."""

    done: float
    total: float | None
    share: float | None
    left: float | None = None


class JobFacts(Struct, frozen=True, kw_only=True):
    """What is known besides the attempts; what comes from the message is None if that cannot be read."""

    queue: str
    priority: int
    tags: tuple[str, ...]
    enqueued_at: datetime
    due_at: datetime
    finished_at: datetime | None
    failures: int
    crashes: int
    fence: int
    worker: str | None
    paused_since: datetime | None = None
    pause_reason: str | None = None
    lease_until: datetime | None = None
    max_retries: int | None = None
    max_crashes: int | None = None
    backoff: str | None = None
    timeout: float | None = None
    expires_at: datetime | None = None
    key_id: str | None = None
    unique: str | None = None
    idempotency_key: str | None = None
    guards: tuple[tuple[str, str], ...] = ()
    schedule: str | None = None
    tick: str | None = None
    retry_of: str | None = None
    parent: str | None = None
    payload_version: int | None = None
    payload_bytes: int | None = None


class FollowerRow(Struct, frozen=True, kw_only=True):
    """A job that follows: `when` it is enqueued; `id` and `state` are known once it exists."""

    when: str
    handler: str
    queue: str
    name: str | None = None
    delay: float = 0.0
    id: str | None = None
    state: str | None = None


class JobDetails(Struct, frozen=True, kw_only=True):
    """Everything about one job that the user may see.

    `payload_note` and `result_note` say why there is none. `result_is_text`: the handler printed it. `edit_fault` says
    why the job cannot be run again with other arguments; None if it can. `changes` are the actions that are allowed.
    """

    at: datetime
    id: str
    state: str
    handler: str
    name: str | None
    attempt: int
    max_tries: int | None
    elapsed: float | None
    explanation: tuple[Explained, ...]
    facts: JobFacts
    steps: tuple[Step, ...]
    progress: JobProgress | None = None
    payload: Any = None
    payload_note: str | None = None
    meta: dict[str, Any] = {}
    result: Any = None
    result_note: str | None = None
    result_is_text: bool = False
    result_length: int | None = None
    followers: tuple[FollowerRow, ...] = ()
    changes: tuple[str, ...] = ()
    edit_fault: str | None = None
    cancel_asked: bool = False

    @property
    def payload_text(self) -> str:
        """The payload as JSON text, to copy."""
        return json.dumps(self.payload, indent=2, ensure_ascii=False)


class OpenedJob(Struct, frozen=True):
    """A job that the user may see: its record, its message if it can be read, and what is shown of it."""

    record: JobRecord
    info: JobInfo
    envelope: Envelope | None


class OneJobQuery(Struct, frozen=True, kw_only=True):
    page: ClassVar[str] = "job"
    id: str

    def read(self, sources: Sources, access: Access) -> JobDetails:
        job = opened_job(sources, access, self.id)
        return _page(sources, access, job)


def opened_job(sources: Sources, access: Access, id: str) -> OpenedJob:
    """The job with this id; a job of a queue that the user does not see is not found."""
    record = job_record(sources, access, id)
    envelope: Envelope | None = None
    try:
        envelope = open_message(record, sources.app.open_backend().wire)
    except (PayloadErased, MessageRejected):
        envelope = None  # the info says why
    info = sources.app.jobs.info(record)
    return OpenedJob(record, info if access.redact is None else access.redact(info), envelope)


def job_record(sources: Sources, access: Access, id: str) -> JobRecord:
    """The record of a job that the user may see, with its message where it is kept."""
    app = sources.app
    if not id.isprintable():
        raise JobNotFound(f"no job {id!r:.80} is known here")
    record = None
    if sources.parts.jobs is not None:
        record = _with_body(sources, sources.parts.find(id))
    elif app.backend.dead_letters is not None:
        record = next(iter(app.dead_letters().get([id])), None)
    if record is not None and access.sees(record.queue):
        return record
    tick = None if record is not None else explained(app, id, has_handlers=sources.has_handlers)
    if tick is not None and access.queues is None:
        raise JobNotFound(f"{tick[1].answer.text}: {id}")
    raise JobNotFound(f"no job {id!r:.80} is known here; it may have been deleted, or be on another backend")


def _with_body(sources: Sources, record: JobRecord | None) -> JobRecord | None:
    """A broker keeps the messages of its dead letters, of which the archive has only records."""
    if record is None or record.state != "dead" or record.body is not None:
        return record
    return sources.app.jobs.record(record.id)


def edit_fault(sources: Sources, job: OpenedJob) -> str | None:
    """Why a job cannot be run again with other arguments; None if it can."""
    if job.record.state not in END_STATES:
        return "it has not ended: cancel it first, or wait for its end"
    if job.envelope is None:
        return job.info.unreadable or "its message cannot be read"
    ring = sources.app.open_backend().wire.ring
    try:
        ring.authorise(ring.kid, job.envelope.queue, job.envelope.job, guard_names(job.envelope))
    except OutOfScope as error:
        return str(error)
    return None


def _page(sources: Sources, access: Access, job: OpenedJob) -> JobDetails:
    record, info, envelope = job.record, job.info, job.envelope
    around = surroundings(sources)
    elapsed = elapsed_of(record, around) if record.state == "leased" else None
    since = around.started.get(record.id)
    facts = _facts(sources, job)
    result, result_note = _result(sources, job)
    present = Present(
        now=sources.now,
        redactor=sources.redactor,
        backoff=facts.backoff,
        worker=facts.worker,
        started=None if since is None else to_datetime(since),
    )
    return JobDetails(
        at=sources.now,
        id=record.id,
        state=record.state,
        handler=info.handler,
        name=info.name,
        attempt=record.attempts + 1,
        max_tries=None if facts.max_retries is None else facts.max_retries + 1,
        elapsed=elapsed,
        explanation=_explanation(sources, record),
        facts=facts,
        steps=timeline(record, info, present),
        progress=_progress(record, elapsed),
        payload=info.payload,
        payload_note=_payload_note(sources, job),
        meta=info.meta,
        result=result,
        result_note=result_note,
        result_is_text=record.state == "done" and not info.output_is_json,
        result_length=info.output_length,
        followers=() if envelope is None or envelope.callbacks is UNSET else _followers(sources, access, job),
        changes=tuple(each for each in changes_of(record) if access.may(f"jobs.{each}") and _can(sources, each)),
        edit_fault=edit_fault(sources, job),
        cancel_asked=info.cancel_asked,
    )


def _can(sources: Sources, change: str) -> bool:
    return sources.parts.control is not None or change in ("retry", "delete")


def _explanation(sources: Sources, record: JobRecord) -> tuple[Explained, ...]:
    facts = collect_facts(sources.app, record, has_handlers=sources.has_handlers)
    return tuple(_explained(reason) for reason in explain(facts).reasons)


def _explained(reason: Reason) -> Explained:
    return Explained(
        code=reason.code,
        text=reason.text,
        since=to_datetime(reason.since) if reason.since else None,
        until=to_datetime(reason.until) if reason.until else None,
        job=reason.job,
        worker=reason.worker,
        advice=reason.advice,
    )


def _progress(record: JobRecord, elapsed: float | None) -> JobProgress | None:
    if record.progress is None:
        return None
    share = share_of(record.progress)
    left = None
    if share is not None and elapsed is not None and _ESTIMATE_FROM <= share < 1:
        left = elapsed * (1 - share) / share
    return JobProgress(done=record.progress.done, total=record.progress.total, share=share, left=left)


def _facts(sources: Sources, job: OpenedJob) -> JobFacts:
    record, info, envelope = job.record, job.info, job.envelope
    queue = sources.figures.queue(record.queue)
    sealed: dict[str, Any] = {} if envelope is None else _sealed_facts(envelope)
    meta = info.meta
    parent = meta.get("parent")
    return JobFacts(
        queue=record.queue,
        priority=record.priority,
        tags=info.tags,
        enqueued_at=info.enqueued_at,
        due_at=info.due_at,
        finished_at=info.finished_at,
        failures=record.attempts,
        crashes=record.crashes,
        fence=record.fence,
        worker=surroundings(sources).workers.get(record.id) or (None if record.run is None else record.run.worker),
        paused_since=None if queue is None else queue.paused_since,
        pause_reason=None if queue is None else queue.pause_reason,
        lease_until=info.lease_until,
        key_id=kid_of(record.body or b"") or None,
        schedule=_text(meta.get("schedule")),
        tick=_text(meta.get("tick")),
        retry_of=_text(info.retry_of),
        parent=_text(parent.get("id")) if isinstance(parent, dict) else None,
        **sealed,
    )


def _text(value: Any) -> str | None:
    """A member of meta that Tenure writes; a user may have put anything there."""
    return value if isinstance(value, str) else None


def _sealed_facts(envelope: Envelope) -> dict[str, Any]:
    named = {
        "key": envelope.key,
        "at most": envelope.at_most,
        "rate": envelope.rate,
        "breaker": envelope.breaker,
        "single instance": envelope.name if envelope.single_instance is True else UNSET,
    }
    return {
        "max_retries": envelope.max_retries,
        "max_crashes": DEFAULT_MAX_CRASHES if envelope.max_crashes is UNSET else envelope.max_crashes,
        "backoff": None if envelope.backoff is UNSET else envelope.backoff.strategy,
        "timeout": None if envelope.timeout is UNSET else envelope.timeout,
        "expires_at": None if envelope.expires_at is UNSET else envelope.expires_at,
        "unique": None if envelope.unique is UNSET else envelope.unique,
        "idempotency_key": envelope.idempotency_key,
        "guards": tuple(
            (name, str(value)) for name, value in named.items() if value is not UNSET and value is not None
        ),
        "payload_version": envelope.payload_version,
        "payload_bytes": len(envelope.payload),
    }


def _payload_note(sources: Sources, job: OpenedJob) -> str | None:
    if job.info.unreadable is None:
        return None
    if job.record.is_erased:
        days = sources.app.settings.retention.payloads
        age = f"past its age of {days:g} day{'' if days == 1 else 's'}" if days else "of an ended job"
        return f"This payload is {age} and was deleted. The job stays in the history."
    return f"The payload can not be shown: {job.info.unreadable}."


def _result(sources: Sources, job: OpenedJob) -> tuple[Any, str | None]:
    """The result with its secrets masked, and why there is none."""
    info, retention = job.info, sources.app.settings.retention
    if job.record.state not in END_STATES:
        kept = f"kept for {retention.done:g} days" if retention.done else "kept"
        return None, f"Not yet. It is {kept} once the job is done."
    if job.record.state != "done":
        return None, f"None: the job is {job.record.state}."
    if info.output is None:
        erased = job.record.is_erased and job.record.run is not None and job.record.run.is_json
        return (
            None,
            "The result was deleted. The job stays in the history." if erased else "The handler returned nothing.",
        )
    return sources.redactor.mask(info.result), None


_WHEN = (("then", "when done"), ("on_failure", "when dead"), ("finally", "at any end"))


def _followers(sources: Sources, access: Access, job: OpenedJob) -> tuple[FollowerRow, ...]:
    envelope, has_ended = job.envelope, job.record.state in END_STATES
    if envelope is None or not isinstance(envelope.callbacks, Callbacks):
        return ()
    callbacks = envelope.callbacks
    given = {"then": callbacks.then, "on_failure": callbacks.on_failure, "finally": callbacks.finally_}
    rows = [
        _follower(sources, follower, when, follower_id(job.record.id, f"{kind}:{number}") if has_ended else None)
        for kind, when in _WHEN
        for number, follower in enumerate(given[kind])
    ]
    for number, follower in enumerate(callbacks.chain):
        id = follower_id(job.record.id, "chain") if has_ended and number == 0 else None
        rows.append(_follower(sources, follower, "next in the chain" if number == 0 else "then", id))
    return tuple(row for row in rows if access.sees(row.queue))


def _follower(sources: Sources, follower: Follower, when: str, id: str | None) -> FollowerRow:
    found = None if id is None or sources.parts.jobs is None else sources.parts.find(id)
    message = follower.message
    return FollowerRow(
        when=when,
        handler=message.job,
        queue=message.queue,
        name=message.name,
        delay=follower.delay,
        id=None if found is None else found.id,
        state=None if found is None else found.state,
    )
