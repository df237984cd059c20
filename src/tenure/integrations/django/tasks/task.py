"""TenureTask: a task with more options than Django knows; Django 6.1 and django-tasks pass them from `@task`.

`TenureTaskResult` is the result of any task of our backend.
"""

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from hashlib import sha256
from json import dumps
from typing import Any, Self, TypedDict, TypeVar, Unpack

from tenure.definition.duration import Duration
from tenure.definition.job import JobOptions
from tenure.definition.retry import Backoff, Strategy
from tenure.errors import ResultCut
from tenure.integrations.django.tasks.api import Task, TaskResult, TaskResultStatus

T = TypeVar("T", bound=Task)


class DjangoTaskOptions(TypedDict, total=False):
    """The options of `@task(...)` and `task.using(...)` that only this backend knows."""

    max_retries: int | None
    timeout: Duration | None
    backoff: Backoff | Strategy | None
    unique: bool | str
    key: str | None
    at_most: int | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenureTask(Task):
    """The options have the meaning of those of `@app.job`; None is the default of the app.

    `unique=True` allows one task at a time with the same arguments to wait or run; a text is the same for that text.
    """

    max_retries: int | None = None
    timeout: Duration | None = None
    backoff: Backoff | Strategy | None = None
    unique: bool | str = False
    key: str | None = None
    at_most: int | None = None
    idempotency_key: str | None = None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        **options: Unpack[DjangoTaskOptions],
    ) -> Self:
        """A copy with other options; a `run_after` that is a timedelta counts from each enqueue."""
        given = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return replace(self, **changes, **options)


_OPTIONS = ("max_retries", "timeout", "backoff", "key", "at_most", "idempotency_key")


def job_options(task: Task) -> JobOptions:
    """What the task asks of its jobs beyond what Django knows, without `unique`, which needs the arguments."""
    options = {name: getattr(task, name, None) for name in _OPTIONS}
    given: JobOptions = {name: value for name, value in options.items() if value is not None}  # type: ignore[assignment]
    return given


def unique_text(task: Task, args: Any, kwargs: Any) -> str | None:
    """The text that no two waiting or running jobs may share; None for most tasks."""
    unique = getattr(task, "unique", False)
    if unique is True:
        arguments = dumps([args, kwargs], sort_keys=True).encode()
        return f"{task.module_path}:{sha256(arguments).hexdigest()[:32]}"
    return unique or None


def copied(task: T, **values: Any) -> T:
    """A copy with other values that is not validated: it may be from a time when other queues or backends existed."""
    copy = object.__new__(type(task))
    for field in fields(task):
        object.__setattr__(copy, field.name, values.get(field.name, getattr(task, field.name)))
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class TenureTaskResult(TaskResult):
    """With `arguments_erased`, args and kwargs are empty because they are no longer kept.

    Status, errors and times are kept longer.
    """

    arguments_erased: bool = False

    @property
    def return_value(self) -> Any:
        """What the task returned; ResultCut if it was too long to be stored."""
        if self.status == TaskResultStatus.SUCCESSFUL and isinstance(self._return_value, ResultCut):
            raise self._return_value
        return TaskResult.return_value.__get__(self)
