"""Discovery: makes an app know the tasks of the project, so that its workers run them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tenure import Tenure

if TYPE_CHECKING:
    from tenure.integrations.django.tasks.backend import TenureBackend


def load_tasks(app: Tenure) -> None:
    """Import the modules with tasks if an alias in TASKS uses Tenure, and add a handler for each task to the app."""
    if not getattr(settings, "TASKS", None):
        return
    # Imported here: a project without tasks may have neither Django 6 nor the package.
    from tenure.integrations.django.tasks import known
    from tenure.integrations.django.tasks.handlers import TellEnds, add_handlers

    backends = list(_our_backends())
    if not backends:
        return
    known.discover(module for backend in backends for module in backend.options.get("modules", ()))
    add_handlers(app, known.all_known())
    for queue in {queue for backend in backends for queue in backend.queues}:
        if app.queues.find(queue) is None:
            app.queues.know(queue)
    app.listen(TellEnds(app))


def _our_backends() -> Iterator["TenureBackend"]:
    from tenure.integrations.django.tasks.api import task_backends
    from tenure.integrations.django.tasks.backend import TenureBackend

    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except ImproperlyConfigured:
            continue  # it is not ours; the checks of Django report it
        if isinstance(backend, TenureBackend):
            yield backend
