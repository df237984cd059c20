"""How the record of a job becomes a result of Django's, in any process.

The arguments come from the signed message while the backend keeps it. A backend that keeps no messages of ended jobs,
such as Redis, has them in the stored result of the job, where `kept_result` puts them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from tenure import Tenure
from tenure.app.client import open_message
from tenure.app.jobs import AppJobs
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.context import Context
from tenure.definition.failure import Failure
from tenure.definition.job_info import AttemptInfo
from tenure.errors import MessageRejected, PayloadErased, ResultCut
from tenure.integrations.django.tasks.api import Task, TaskError, TaskResultDoesNotExist, TaskResultStatus
from tenure.integrations.django.tasks.priorities import lowest_of
from tenure.integrations.django.tasks.task import TenureTaskResult, copied

META = "django_task"  # the member of `meta` that holds what only Django knows about a task
_STATUS = {"leased": "RUNNING", "done": "SUCCESSFUL", "dead": "FAILED", "cancelled": "FAILED", "expired": "FAILED"}
_ERRORS = {"TimedOut": "tenure.errors.DeadlineExceeded"}
_NO_ATTEMPT = ("cancelled", "expired")  # how jobs end that are stopped, not those that fail
_NO_EXCEPTION = "tenure.errors.JobFailed"  # a process died, or the job could not run


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What Django wants to know again about an enqueued task, and no backend stores by itself; times are ISO texts.

    With `keep`, the backend forgets the message of an ended job, so the worker stores this with the result.
    """

    backend: str
    priority: int
    enqueued_at: str
    run_after: str | None = None
    keep: bool = False

    def as_meta(self) -> dict[str, Any]:
        return {name: value for name in self.__slots__ if (value := getattr(self, name))} | {"priority": self.priority}


def facts_of(meta: Mapping[str, Any]) -> TaskFacts | None:
    """The facts in the meta of a job; None if no backend of ours enqueued it. A newer one may have added some."""
    found = meta.get(META)
    if not isinstance(found, dict):
        return None
    return TaskFacts(**{name: value for name, value in found.items() if name in TaskFacts.__slots__})


@dataclass(frozen=True, slots=True)
class StoredTasks:
    """The jobs on a backend of the app: None is its own, a text is another by name or URL."""

    app: Tenure
    backend: str | None = None

    @property
    def jobs(self) -> AppJobs:
        return self.app.jobs if self.backend is None else self.app.jobs.on(self.backend)

    @property
    def keeps_messages(self) -> bool:
        """Whether the messages of ended jobs can be read for a while."""
        return self.app.open_backend(self.backend).backend.payloads is not None

    def attempts(self, record: JobRecord) -> list[AttemptInfo]:
        """The attempts of a job that failed, succeeded or run now."""
        history = [each for each in self.jobs.info(record, in_list=True).history if each.outcome not in _NO_ATTEMPT]
        if history and history[-1].outcome == "running":
            history[-1] = self._as_reported(record.id, history[-1])
        return history

    def _as_reported(self, id: str, attempt: AttemptInfo) -> AttemptInfo:
        """The running attempt with its worker and its start, which the worker reports every few seconds."""
        workers = self.app.parts(self.backend).workers
        for worker in () if workers is None else workers.alive():
            if id in worker.jobs:
                started = next((to_datetime(job.started_at) for job in worker.running if job.id == id), None)
                return replace(attempt, worker=worker.id, started_at=started)
        return attempt


@dataclass(frozen=True, slots=True)
class _Arguments:
    args: list[Any]
    kwargs: dict[str, Any]
    facts: TaskFacts | None
    erased: bool = False


def django_time(moment: datetime | None) -> datetime | None:
    """A time as Django gives it: in UTC, or without a zone where USE_TZ is off."""
    if moment is None or settings.USE_TZ:
        return moment
    naive: datetime = timezone.make_naive(moment, timezone.get_default_timezone())  # as `timezone.now()` gives it
    return naive


def enqueued_result(task: Task, id: str, args: Any, kwargs: Any, facts: TaskFacts) -> TenureTaskResult:
    """The result of a task that was enqueued now."""
    return TenureTaskResult(
        task=_as_enqueued(task, facts, task.queue_name),
        id=id,
        status=TaskResultStatus.READY,
        enqueued_at=_time(facts.enqueued_at),
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=facts.backend,
        errors=[],
        worker_ids=[],
    )


def running_result(task: Task, context: Context, worker: str, started: datetime) -> TenureTaskResult:
    """The result during an attempt, from what the job itself knows; earlier attempts have no worker and no errors."""
    facts = facts_of(context.meta)
    if facts is None:
        raise TaskResultDoesNotExist(f"job {context.id} was not enqueued as a task")
    result = enqueued_result(task, context.id, context.payload.args, context.payload.kwargs, facts)
    now = django_time(started)
    earlier = context.attempt + context.crashes - 1
    for name, value in {
        "task": _as_enqueued(task, facts, context.queue),
        "status": TaskResultStatus.RUNNING,
        "started_at": now,
        "last_attempted_at": now,
        "worker_ids": [*[""] * earlier, worker],
    }.items():
        object.__setattr__(result, name, value)
    return result


def stored_result(record: JobRecord, task: Task, stored: "StoredTasks", alias: str) -> TenureTaskResult:
    """The result of the job of this record; raises TaskResultDoesNotExist if another alias enqueued it."""
    found = _arguments(record, stored)
    if found.facts is not None and found.facts.backend != alias:
        raise TaskResultDoesNotExist(f"{record.id} is a task of the backend {found.facts.backend!r}, not of {alias!r}")
    facts = found.facts or TaskFacts(alias, lowest_of(record.priority), to_datetime(record.enqueued_at).isoformat())
    history = stored.attempts(record)
    started = [each.started_at or each.ended_at for each in history]
    worker_ids = [each.worker or "" for each in history]
    result = TenureTaskResult(
        task=_as_enqueued(task, facts, record.queue),
        id=record.id,
        status=TaskResultStatus[_STATUS.get(record.state, "READY")],
        enqueued_at=_time(facts.enqueued_at),
        started_at=django_time(next((each for each in started if each), None)),
        last_attempted_at=django_time(next((each for each in reversed(started) if each), None)),
        finished_at=django_time(to_datetime(record.finished_at)) if record.finished_at else None,
        args=found.args,
        kwargs=found.kwargs,
        backend=alias,
        errors=_errors(record),
        worker_ids=[*[""] * (record.runs - len(worker_ids)), *worker_ids],
        arguments_erased=found.erased,
    )
    object.__setattr__(
        result, "_return_value", _return_value(record, kept=found.facts is not None and found.facts.keep)
    )
    return result


def kept_result(value: Any, result: TenureTaskResult, facts: TaskFacts) -> dict[str, Any]:
    """What a worker stores as the result of a task whose message the backend forgets.

    If that is too long, it stores the `length` of the return value in its place.
    """
    return {META: facts.as_meta(), "args": result.args, "kwargs": result.kwargs, "return_value": value}


def _arguments(record: JobRecord, stored: "StoredTasks") -> _Arguments:
    try:
        envelope = open_message(record, stored.app.open_backend(stored.backend).wire)
        payload = json.loads(bytes(envelope.payload))
        meta = envelope.meta if isinstance(envelope.meta, dict) else {}
    except (PayloadErased, MessageRejected, ValueError):
        return _kept_arguments(record)
    if (facts := facts_of(meta)) is None:
        raise TaskResultDoesNotExist(f"job {record.id} was not enqueued as a task")
    return _Arguments(payload["args"], payload["kwargs"], facts)


def _kept_arguments(record: JobRecord) -> _Arguments:
    kept = _output(record)
    if isinstance(kept, dict) and (facts := facts_of(kept)) is not None:
        return _Arguments(kept["args"], kept["kwargs"], facts)
    return _Arguments([], {}, None, erased=True)


def _output(record: JobRecord) -> Any:
    """What the worker stored as the result, as JSON decodes it; None if it printed only, or the text was cut."""
    run = record.run
    if record.output is None or run is None or not run.is_json or run.output_length is not None:
        return None
    return json.loads(record.output)


def _return_value(record: JobRecord, *, kept: bool) -> Any:
    if record.state != "done" or record.run is None or not record.run.is_json:
        return None
    output, length = _output(record), record.run.output_length
    if kept and isinstance(output, dict):
        output, length = output["return_value"], output.get("length")
    if length is None:
        return output
    return ResultCut(
        f"the return value of task {record.id} has {length} characters as JSON, which is too long to be stored: "
        "store large data elsewhere and return its location"
    )


def _errors(record: JobRecord) -> list[TaskError]:
    """One error for each failed attempt, or the reason why a job ended without one."""
    errors = [_error(failure) for failure in record.failures]
    if record.state in _NO_ATTEMPT or (record.state == "dead" and not errors):
        path = "tenure.errors.Cancelled" if record.state == "cancelled" else _NO_EXCEPTION
        errors.append(TaskError(exception_class_path=path, traceback=f"{path}: {record.reason or record.state}\n"))
    return errors


def _error(failure: Failure) -> TaskError:
    known = _ERRORS.get(failure.type, _NO_EXCEPTION)
    path = known if failure.module is None else f"{failure.module}.{failure.type}"
    return TaskError(exception_class_path=path, traceback=failure.trace or f"{path}: {failure.message}\n")


def _as_enqueued(task: Task, facts: TaskFacts, queue: str) -> Task:
    run_after = None if facts.run_after is None else datetime.fromisoformat(facts.run_after)
    return copied(task, priority=facts.priority, queue_name=queue, backend=facts.backend, run_after=run_after)


def _time(text: str) -> datetime | None:
    return django_time(datetime.fromisoformat(text))
