"""The tasks that this process knows, by module path.

A message names its task. The name is looked up here and never imported, so a message cannot make a worker import a
module or call anything but a task. A task becomes known when the project makes it for this backend (`@task`, `using`),
enqueues it, or has it in a module that `discover` imports: the `tasks` modules of installed apps, and those of OPTIONS.
"""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from tenure.integrations.django.tasks.api import Task

_TASKS = "tasks"
_known: dict[str, Task] = {}


def remember(task: Task) -> None:
    """Know this task; variants of a known task, which `using` makes, change nothing."""
    path = task.module_path
    if (known := _known.get(path)) is None or known.func is not task.func:
        _known[path] = task


def find(path: str) -> Task | None:
    return _known.get(path)


def all_known() -> list[Task]:
    return list(_known.values())


def discover(modules: Iterable[str] = ()) -> None:
    """Import the modules that define tasks, and know the tasks in them, whatever backend they were made for."""
    autodiscover_modules(_TASKS)
    names = [f"{config.name}.{_TASKS}" for config in apps.get_app_configs()]
    for name in modules:
        import_module(name)
        names.append(name)
    for task in _defined_in(names):
        remember(task)


def _defined_in(names: Iterable[str]) -> Iterator[Task]:
    for name in names:
        if (module := sys.modules.get(name)) is not None:
            yield from (value for value in list(vars(module).values()) if isinstance(value, Task))
