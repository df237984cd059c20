"""The tasks of Django 6 if SITE_TASKS says so, else those of the package `django-tasks`."""

import os
from importlib import import_module

NAME = os.environ.get("SITE_TASKS", "django_tasks")
_signals = import_module(f"{NAME}.signals")
task, task_backends = import_module(NAME).task, import_module(NAME).task_backends
task_enqueued, task_started, task_finished = _signals.task_enqueued, _signals.task_started, _signals.task_finished
