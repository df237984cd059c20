"""What a job does whose worker knows no Flask or Quart application."""

import logging

from tenure.definition.context import Context
from tenure.errors import Snooze

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 60


def no_application(ctx: Context, framework: str) -> Snooze:
    """The job waits at no cost, because it would fail in every worker that was started like this one."""
    logger.error(
        "job %s of %r needs a %s application, and none was initialised in this process; start the worker with "
        "`%s tenure work`, or let --app name a module that creates the application too",
        ctx.id,
        ctx.handler,
        framework.capitalize(),
        framework,
    )
    return Snooze(_WAIT_SECONDS, f"no {framework.capitalize()} application was initialised in the worker")
