"""TenureBackend: enqueues Django's tasks as jobs of the project's app, and finds their results in any process."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.checks import CheckMessage
from django.utils import timezone

from tenure import Tenure
from tenure.definition.job import Job, JobOptions, new_id
from tenure.definition.limits import check_key, check_queue
from tenure.errors import InvalidJob, JobNotFound
from tenure.integrations.django.current_app import app_without_jobs, current_configuration, get_app
from tenure.integrations.django.job_connections import in_transaction
from tenure.integrations.django.tasks import known
from tenure.integrations.django.tasks.api import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
)
from tenure.integrations.django.tasks.checks import check_alias
from tenure.integrations.django.tasks.handlers import add_handlers
from tenure.integrations.django.tasks.priorities import level_of
from tenure.integrations.django.tasks.results import META, StoredTasks, TaskFacts, enqueued_result, stored_result
from tenure.integrations.django.tasks.task import TenureTask, TenureTaskResult, copied, job_options, unique_text


class TenureBackend(BaseTaskBackend):
    """`OPTIONS["backend"]` is another backend for the jobs, a name in TENURE["backends"].

    `OPTIONS["modules"]` are modules with tasks, beside the modules `tasks` of installed apps.
    """

    task_class = TenureTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def app(self) -> Tenure:
        """The app of the project."""
        return app_without_jobs()

    @property
    def stored(self) -> StoredTasks:
        return StoredTasks(self.app, self.options.get("backend") or _replaced_url())

    def validate_task(self, task: Task) -> None:
        """As every backend; it also checks what Tenure knows, and makes the task known to workers in this process."""
        deferred = isinstance(task.run_after, timedelta)
        super().validate_task(copied(task, run_after=None) if deferred else task)
        unique = getattr(task, "unique", False)
        if not isinstance(unique, (bool, str)):
            raise InvalidTask(f"unique must be True, False or a text, not {unique!r:.80}")
        try:
            check_key(task.module_path)
            text = unique if isinstance(unique, str) and unique else None
            Job(handler=task.module_path, queue=check_queue(task.queue_name), unique=text).replace(**job_options(task))
        except (InvalidJob, TypeError) as error:
            raise InvalidTask(str(error)) from error
        known.remember(task)

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TenureTaskResult:
        """Enqueue a job for the task; inside `transaction.atomic()` the job is enqueued by the commit."""
        self.validate_task(task)
        stored, facts, id = self.stored, self._facts(task), new_id()
        result = enqueued_result(task, id, args, kwargs, facts)
        if stored.app.queues.find(task.queue_name) is None:
            stored.app.queues.know(task.queue_name)
        add_handlers(stored.app, [task])
        handle = stored.app.enqueue(self._job(task, result, facts), stored.backend)
        if handle.id != id:  # another task with this `unique` waits or runs
            return self._existing(handle.id, result)
        task_enqueued.send_robust(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TenureTaskResult:
        """The task with this id, as it is now; raises TaskResultDoesNotExist if this alias has none."""
        stored, id = self.stored, str(result_id)
        if not id.isprintable():  # it may come from the path of a request, and some servers refuse to look for it
            raise TaskResultDoesNotExist(f"no task has the id {id!r}")
        try:
            record = stored.jobs.record(id)
        except JobNotFound as error:
            hint = "; what this transaction enqueues can be read after the commit" if in_transaction() else ""
            raise TaskResultDoesNotExist(f"{error}{hint}") from error
        task = known.find(record.handler)
        if task is None:
            get_app()  # it imports the modules with tasks, which this process may not have done yet
            task = known.find(record.handler)
        if task is None:
            raise TaskResultDoesNotExist(f"{id} is a job of {record.handler!r}, which is no task that is known here")
        return stored_result(record, task, stored, self.alias)

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        """What is wrong with the alias in TASKS, and what its Tenure backend cannot do."""
        yield from super().check(**kwargs)
        yield from check_alias(self)

    def _facts(self, task: Task) -> TaskFacts:
        run_after: Any = task.run_after
        if isinstance(run_after, timedelta):
            run_after = timezone.now() + run_after
        return TaskFacts(
            backend=self.alias,
            priority=int(task.priority),
            enqueued_at=datetime.now(UTC).isoformat(),
            run_after=None if run_after is None else run_after.isoformat(),
            keep=not self.stored.keeps_messages,
        )

    def _job(self, task: Task, result: TenureTaskResult, facts: TaskFacts) -> Job:
        at = result.task.run_after
        if at is not None and timezone.is_naive(at):
            at = timezone.make_aware(at, timezone.get_default_timezone())
        options: JobOptions = {
            **job_options(task),
            "queue": task.queue_name,
            "priority": level_of(facts.priority),
            "at": at,
            "unique": unique_text(task, result.args, result.kwargs),
            "meta": {META: facts.as_meta()},
        }
        job = self.app.define(task.module_path, {"args": result.args, "kwargs": result.kwargs}).build()
        return job.replace(id=result.id, **options)

    def _existing(self, id: str, result: TenureTaskResult) -> TenureTaskResult:
        """The result of the task that keeps this one from being enqueued."""
        try:
            return self.get_result(id)
        except TaskResultDoesNotExist:  # it is in the open transaction, which no other connection can read
            object.__setattr__(result, "id", id)
            return result


def _replaced_url() -> str | None:
    """The URL of the project in a worker whose `--url` names the backend of an alias; else None.

    A task of that alias may enqueue tasks of the others, which belong where all other processes look for them.
    """
    found = current_configuration()
    if found.own_url == found.settings.url:
        return None
    aliases: Any = task_backends.settings
    names = {each.get("OPTIONS", {}).get("backend") for each in aliases.values()}
    backends = found.settings.backends
    if found.settings.url not in {url for name, url in backends.items() if name in names}:
        return None
    return next((name for name, url in backends.items() if url == found.own_url), found.own_url)
