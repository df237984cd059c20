"""System checks of the setting TASKS: `manage.py check` shows them."""

from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning

from tenure import Tenure
from tenure.backends.url import without_secrets
from tenure.definition.limits import is_queue
from tenure.errors import TenureError
from tenure.suggestions import nearest

_INTEGRATION = "tenure.integrations.django"
_OPTIONS = ("backend", "modules")
_WITHOUT_WAITING_JOBS = ("beanstalk", "servicebus")  # they cannot find a waiting job by its id


class Alias(Protocol):
    """The part of a task backend that is checked."""

    alias: str
    queues: set[str]
    options: dict[str, Any]

    @property
    def app(self) -> Tenure: ...


def check_alias(backend: Alias) -> Iterator[CheckMessage]:
    """The faults of an alias in TASKS."""
    where = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed(_INTEGRATION):
        hint = f"Add {_INTEGRATION!r} to INSTALLED_APPS: it has the command that runs the tasks."
        yield Error(f"{where} uses Tenure, which is not installed in this project.", hint=hint, id="tenure.E101")
    for option in backend.options.keys() - set(_OPTIONS):
        guess = nearest(str(option), _OPTIONS)
        hint = f"Did you mean {guess!r}?" if guess else "Settings of Tenure belong into TENURE."
        yield Error(f"{where}['OPTIONS'] has the unknown option {option!r}.", hint=hint, id="tenure.E102")
    for queue in sorted(backend.queues):
        if not is_queue(queue):
            hint = "Use 1 to 100 letters, digits, '.', '_' or '-', starting with a letter or digit."
            yield Error(f"{where}['QUEUES'] has {queue!r}, which cannot name a queue.", hint=hint, id="tenure.E103")
    yield from _check_backend(backend, where)


def _check_backend(backend: Alias, where: str) -> Iterator[CheckMessage]:
    try:
        settings = backend.app.settings
    except (TenureError, ValueError):
        return  # the checks of the integration say why
    name = backend.options.get("backend")
    if name is not None and name not in settings.backends:
        guess = nearest(str(name), settings.backends)
        hint = (
            f"Did you mean {guess!r}?" if guess else "Name it there: the outbox, `migrate` and workers need its name."
        )
        text = (
            f"{where}['OPTIONS']['backend'] is {without_secrets(str(name))!r}, which TENURE['backends'] does not have."
        )
        yield Error(text, hint=hint, id="tenure.E104")
        return
    scheme = urlsplit(settings.url if name is None else settings.backends[name]).scheme
    if scheme in _WITHOUT_WAITING_JOBS:
        yield Warning(
            f"{where} is on a {scheme} broker, which cannot find a waiting task.",
            hint="get_result() finds a task after its first attempt, if the setting store names a database or Redis.",
            id="tenure.W101",
        )
