"""Running a task: the handler that a worker calls for it, and Django's signals about it.

The process that runs the task sends `task_started`, and `task_finished` for the ends that it knows: success, and an
error after which there is no further attempt. The other ends, such as a timeout or a crash, are known to the worker
only, which sends `task_finished` when it has stored them. A receiver that fails is logged and changes nothing.
"""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from threading import Lock
from traceback import format_exception
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from msgspec import Raw

from tenure import Context, Tenure
from tenure.errors import BackendError, Cancel, CircuitOpen, Fail, Interrupt, JobNotFound, Snooze
from tenure.events import Event, Settled, Settlement, Status
from tenure.integrations.django.tasks import known
from tenure.integrations.django.tasks.api import (
    Task,
    TaskContext,
    TaskError,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from tenure.integrations.django.tasks.results import (
    StoredTasks,
    django_time,
    facts_of,
    kept_result,
    running_result,
    stored_result,
)
from tenure.integrations.django.tasks.task import TenureTaskResult

_adding = Lock()
_ENDED_BY_WORKER = ("timeout", "crash_loop")  # the process that ran the task could not tell


def add_handlers(app: Tenure, tasks: list[Task]) -> None:
    """Let the workers of this app run these tasks; the key of a handler is the module path of its task."""
    with _adding:
        for task in tasks:
            path = task.module_path
            if path not in app.registry:
                app.job(name=path)(_async_handler(app, path) if iscoroutinefunction(task.func) else _handler(app, path))


def _handler(app: Tenure, path: str) -> Callable[..., Any]:
    def run_task(context: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
        run = _TaskRun.begin(app, path, context)
        try:
            value = run.to_store(run.task.func(*run.leading, *args, **kwargs))
        except BaseException as error:
            run.failed(error)
            raise
        run.succeeded()
        return value

    return run_task


def _async_handler(app: Tenure, path: str) -> Callable[..., Any]:
    async def run_task(context: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
        # What reads a backend or calls receivers would block the event loop.
        run = await sync_to_async(_TaskRun.begin)(app, path, context)
        try:
            value = run.to_store(await run.task.func(*run.leading, *args, **kwargs))
        except (Exception, SystemExit) as error:
            await sync_to_async(run.failed)(error)
            raise
        await sync_to_async(run.succeeded)()
        return value

    return run_task


@dataclass(frozen=True, slots=True)
class _TaskRun:
    """One attempt of a task; its result changes with it, for the task and the receivers of signals."""

    task: Task
    context: Context
    result: TenureTaskResult
    longest: int  # characters of a stored result

    @classmethod
    def begin(cls, app: Tenure, path: str, context: Context) -> "_TaskRun":
        task = known.find(path)
        if task is None:
            raise LookupError(f"the task {path!r} is not known in this process")
        started = datetime.now(UTC)
        result = running_result(task, context, f"{socket.gethostname()}:{os.getpid()}", started)
        if task.takes_context:
            _add_what_is_stored(result, app, context)
        run = cls(task, context, result, app.settings.max_output)
        task_started.send_robust(run._sender, task_result=result)
        return run

    @property
    def leading(self) -> tuple[Any, ...]:
        return (TaskContext(task_result=self.result),) if self.task.takes_context else ()

    def to_store(self, returned: Any) -> Any:
        """What the worker stores for this return value; raises for a value that JSON cannot carry, as Django does."""
        value = normalize_json(returned)
        self._set(_return_value=value)
        text, facts = None if value is None else _as_json(value), facts_of(self.context.meta)
        if facts is not None and facts.keep:
            kept = kept_result(value, self.result, facts)
            text = _as_json(kept)
            if len(text) > self.longest:
                text = _as_json(kept | {"return_value": None, "length": len(_as_json(value))})
        # Not as a text, which would be stored together with what the task printed.
        return None if text is None else Raw(text.encode())

    def succeeded(self) -> None:
        self._finish(TaskResultStatus.SUCCESSFUL)

    def failed(self, error: BaseException) -> None:
        """Called while the error is handled, so that receivers can ask for it."""
        if not _is_last_attempt(self.context, error):
            return
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        failure = TaskError(exception_class_path=path, traceback="".join(format_exception(error)))
        self._set(_return_value=None, errors=[*self.result.errors, failure])
        self._finish(TaskResultStatus.FAILED)

    def _finish(self, status: Any) -> None:
        self._set(status=status, finished_at=django_time(datetime.now(UTC)))
        task_finished.send_robust(self._sender, task_result=self.result)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self.result, name, value)

    @property
    def _sender(self) -> type:
        return type(task_backends[self.result.backend])


def _add_what_is_stored(result: TenureTaskResult, app: Tenure, context: Context) -> None:
    """Add earlier errors, workers and the first start, which the job itself does not know, if they can be read."""
    try:
        stored = stored_result(app.jobs.record(context.id), result.task, StoredTasks(app), result.backend)
    except (JobNotFound, BackendError, TaskResultDoesNotExist):
        return
    if len(stored.worker_ids) == len(result.worker_ids):
        object.__setattr__(result, "worker_ids", stored.worker_ids)
    object.__setattr__(result, "errors", stored.errors)
    object.__setattr__(result, "started_at", stored.started_at or result.started_at)


def _as_json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _is_last_attempt(context: Context, error: BaseException) -> bool:
    """Whether the job is dead after this error, as `worker/pipeline.py` decides it."""
    is_paused = isinstance(error, CircuitOpen) and error.key is not None
    if is_paused or context.cancelled or isinstance(error, (Interrupt, KeyboardInterrupt, Cancel, Snooze)):
        return False  # it runs again, or the worker says how it ended
    return isinstance(error, Fail) or context.attempt > context.max_retries


class TellEnds:
    """A listener of an app: sends `task_finished` for the ends of tasks that only the worker knows."""

    def __init__(self, app: Tenure) -> None:
        self._app = app

    def __call__(self, event: Event) -> None:
        if type(event) is Settled:
            for settlement in event.settlements:
                if _only_worker_knows(settlement):
                    self._tell(settlement.id)

    def _tell(self, id: str) -> None:
        try:
            record = self._app.jobs.record(id)
        except (JobNotFound, BackendError):
            return  # a broker without a store, or a job that is deleted
        task = known.find(record.handler)
        if task is None:
            return
        for alias in task_backends:
            try:
                result = stored_result(record, task, StoredTasks(self._app), alias)
            except TaskResultDoesNotExist:
                continue
            try:
                task_finished.send_robust(type(task_backends[alias]), task_result=result)
            finally:
                close_old_connections()
            return


def _only_worker_knows(settlement: Settlement) -> bool:
    if settlement.status in (Status.CANCELLED, Status.EXPIRED, Status.SKIPPED_IDEMPOTENT, Status.REJECTED):
        return True
    is_dead = settlement.status is Status.DEAD_LETTERED
    return is_dead and (not settlement.failed or settlement.reason in _ENDED_BY_WORKER)
