"""The task API that the project uses: `django.tasks` of Django 6, or the package `django-tasks`.

A project that has `django_tasks` in INSTALLED_APPS uses the package, also with Django 6. One process uses one of both.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

PACKAGE = "django_tasks"
_FIRST_WITH_TASKS = 6


def _chosen() -> str:
    installed = any(each.split(".")[0] == PACKAGE for each in settings.INSTALLED_APPS)
    return PACKAGE if installed or django.VERSION[0] < _FIRST_WITH_TASKS else "django.tasks"


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        raise ImproperlyConfigured(
            f"Django {django.get_version()} has no tasks of its own, and the package django-tasks is not installed; "
            "run pip install django-tasks, or use Django 6"
        ) from error


NAME = _chosen()

if TYPE_CHECKING:
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

    TaskResultStatus: Any  # Django has no types, so its members would be tuples
else:
    _base, _exceptions, _signals = (_imported(f"{NAME}.{part}") for part in ("base", "exceptions", "signals"))
    task_backends = _imported(NAME).task_backends
    BaseTaskBackend = _imported(f"{NAME}.backends.base").BaseTaskBackend
    Task, TaskContext, TaskError = _base.Task, _base.TaskContext, _base.TaskError
    TaskResult, TaskResultStatus = _base.TaskResult, _base.TaskResultStatus
    InvalidTask = _exceptions.InvalidTaskError if NAME == PACKAGE else _exceptions.InvalidTask
    TaskResultDoesNotExist = _exceptions.TaskResultDoesNotExist
    task_enqueued, task_finished, task_started = _signals.task_enqueued, _signals.task_finished, _signals.task_started
    normalize_json = _base.normalize_json

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
