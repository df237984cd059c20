"""The schedules of an app: where they come from besides the code, and what is asked of their jobs."""

import pkgutil
from typing import TYPE_CHECKING

from tenure.cron.registry import Schedules
from tenure.definition.job import Job
from tenure.errors import SettingsError

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure


def schedules_of(app: "Tenure") -> Schedules:
    """An empty registry that knows the zone, the handlers and the hook of this app."""

    def check(job: Job) -> None:
        handler = app.registry.resolve(job.handler, app.queues.resolve(job.queue))
        handler.shape.pack(job.payload)

    return Schedules(app.settings.timezone, check, lambda: _register(app, app.settings.schedules))


def _register(app: "Tenure", place: str | None) -> None:
    """Call the function at `module:function` with the app, if there is one."""
    if place is None:
        return
    try:
        register = pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"the setting schedules names {place!r}, which cannot be found: {error}; write it as module:function"
        ) from error
    register(app)
