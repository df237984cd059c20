"""AppClient: reads, awaits and changes single jobs of one backend; handles and `app.jobs` call it."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from tenure.app.open_backends import OpenBackend
from tenure.app.producer import Producer
from tenure.app.results import wait_for_end
from tenure.app.waiters import Waiters
from tenure.backends.contract import Parts, required
from tenure.backends.job_filter import JobFilter, search_dead_letters
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.duration import Duration
from tenure.definition.failure import CRASHED, VANISHED, Failure
from tenure.definition.handler import Registry
from tenure.definition.job_info import AttemptInfo, JobInfo
from tenure.definition.moment import When
from tenure.errors import JobNotFound, MessageRejected, PayloadErased
from tenure.events import CancelResult, RescheduleResult, Run
from tenure.redaction import Redactor
from tenure.wire.envelope import Envelope, Wire

RETRY_OF = "retry_of"  # the member of `meta` that names the job which a job repeats
_FAILED_OUTCOMES = {VANISHED: "vanished", CRASHED: "crashed"}


@dataclass(frozen=True, slots=True)
class AppClient:
    """`backend` is a name from the settings, a URL, or None for the backend of the app."""

    parts_of: Callable[[str | None], Parts]
    open_backend: Callable[[str | None], OpenBackend]
    producer: Producer
    waiters: Waiters
    await_end_of: Callable[[str, float | None, str | None], Awaitable[JobInfo]]
    registry: Registry
    sensitive: tuple[str, ...]
    backend: str | None = None
    type: Any = None

    def on(self, backend: str | None, type: Any = None) -> "AppClient":
        """A client of this backend; `type` is that of results, None: the type that each handler declares."""
        return self if backend is None and type is None else replace(self, backend=backend, type=type)

    @property
    def parts(self) -> Parts:
        return self.parts_of(self.backend)

    @property
    def wire(self) -> Wire:
        return self.open_backend(self.backend).wire

    def get(self, id: str) -> JobInfo:
        return self.info(self.record(id))

    def wait(self, id: str, timeout: float | None) -> JobInfo:
        return self.info(wait_for_end(self.parts, self.waiters, id, timeout, self.backend))

    def await_end(self, id: str, timeout: float | None) -> Awaitable[JobInfo]:
        return self.await_end_of(id, timeout, self.backend)

    def result_type(self, handler: str) -> Any:
        if self.type is not None:
            return self.type
        return self.registry.get(handler).returns if handler in self.registry else Any

    def cancel(self, id: str) -> CancelResult:
        return self.producer.cancel([id], self.backend)[id]

    def reschedule(self, id: str, delay: Duration, at: When | None) -> RescheduleResult:
        return self.producer.reschedule([id], delay, at, self.backend)[id]

    def record(self, id: str) -> JobRecord:
        """What the backend has recorded about a job, with its message where it is kept."""
        parts = self.parts
        required(parts.jobs, "records of jobs")
        record = parts.find(id)
        if record is None:
            can_find = self.open_backend(self.backend).backend.jobs is not None
            not_yet = "" if can_find else "it may not have run yet, and this broker does not show waiting jobs; "
            raise JobNotFound(
                f"no job {id!r} is known here; {not_yet}it may have been deleted, or be on another backend"
            )
        if record.state == "dead" and record.body is None and parts.dead_letters is not None:
            letters = search_dead_letters(parts.dead_letters, JobFilter(queue=record.queue))
            return next((letter for page in letters for letter in page if letter.id == id), record)
        return record

    def info(self, record: JobRecord, *, in_list: bool = False) -> JobInfo:
        """A record as a value for users; records of lists have no message."""
        shown: dict[str, Any] = {"unreadable": "lists have no payloads; app.jobs.get(id) reads one"}
        if not in_list:
            shown = self._message(record)
        run = record.run
        return JobInfo(
            id=record.id,
            state=record.state,
            queue=record.queue,
            handler=record.handler,
            name=record.name,
            priority=record.priority,
            tags=record.tags,
            runs=record.runs,
            attempts=record.attempts,
            crashes=record.crashes,
            enqueued_at=to_datetime(record.enqueued_at),
            due_at=to_datetime(record.due_at),
            finished_at=_moment(record.finished_at),
            output=record.output,
            output_is_json=run is not None and run.is_json,
            output_length=None if run is None else run.output_length,
            progress=record.progress,
            worker=record.owner,
            lease_until=_moment(record.lease_until),
            cancel_asked=record.cancel_asked,
            waits_for=record.waits_for,
            reason=record.reason,
            history=tuple(_history(record)),
            **shown,
        )

    def _message(self, record: JobRecord) -> dict[str, Any]:
        try:
            envelope = open_message(record, self.wire)
            payload = msgspec.json.decode(envelope.payload)
        except (PayloadErased, MessageRejected, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return {"unreadable": str(error)}
        meta = {} if envelope.meta is UNSET else envelope.meta
        mask = _redactor(self.sensitive).mask
        return {"payload": mask(payload), "meta": mask(meta), RETRY_OF: meta.get(RETRY_OF)}


def open_message(record: JobRecord, wire: Wire) -> Envelope:
    """The message of a job; raises PayloadErased if the backend no longer has it."""
    if record.is_erased:
        raise PayloadErased(f"the payload of job {record.id!r} is no longer kept")
    if record.body is None:
        raise PayloadErased(f"{record.state} jobs keep no payload on this backend")
    return wire.open(record.body, record.queue)


@cache
def _redactor(names: tuple[str, ...]) -> Redactor:
    """Made on first use: compiling its expressions takes milliseconds."""
    return Redactor(names)


def _history(record: JobRecord) -> Iterator[AttemptInfo]:
    """The failed attempts, then the last one if it did not fail, or the one that runs now."""
    for failure in record.failures:
        yield _failed(failure)
    number = record.attempts + 1
    if record.state == "leased":
        yield AttemptInfo(number=number, outcome="running", worker=record.owner)
    elif record.run is not None and all(failure.run != record.run for failure in record.failures):
        yield AttemptInfo(number=number, outcome=record.state, ended_at=_moment(record.finished_at), **_run(record.run))


def _failed(failure: Failure) -> AttemptInfo:
    run: dict[str, Any] = {} if failure.run is None else _run(failure.run)
    return AttemptInfo(
        number=failure.attempt,
        outcome=_FAILED_OUTCOMES.get(failure.type, "failed"),
        ended_at=to_datetime(failure.at),
        error_type=failure.type,
        error=failure.message,
        traceback=failure.trace,
        **{**run, "worker": failure.worker or run.get("worker")},
    )


def _run(run: Run) -> dict[str, Any]:
    return {
        "started_at": to_datetime(run.started),
        "worker": run.worker,
        "seconds": run.seconds,
        "wait": run.wait,
        "cpu": run.cpu,
        "memory": run.memory,
    }


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)
