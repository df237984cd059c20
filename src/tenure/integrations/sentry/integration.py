"""TenureIntegration: the options, and how the integration is joined to the apps that it serves.

An app is served once `instrument` got it; what happens with its jobs then goes to the client that is active at that
moment, if its integrations have a TenureIntegration. So an app can be instrumented before or after `sentry_sdk.init`.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, get_args

import sentry_sdk
from sentry_sdk.integrations import Integration
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.scope import add_global_event_processor

import tenure
from tenure.app.tenure import Tenure
from tenure.errors import SettingsError

Report = Literal["final", "every"]
# Their lines tell of the failures of jobs, which this integration reports with all that Sentry can show.
_LOGGERS = ("tenure.worker.logs", "tenure.execution.parent.runner")
_OWN_CODE = f"{Path(tenure.__file__).parent}{os.sep}"


class TenureIntegration(Integration):
    """`sentry_sdk.init(integrations=[TenureIntegration(app)])`; child processes import the module that contains it.

    `report` says which failures of a job become events: the `final` one, or `every` one. With `monitor_schedules`,
    each schedule whose name is not in `exclude_schedules` is a monitor.
    """

    identifier = "tenure"
    origin = "auto.queue.tenure"

    def __init__(
        self,
        *apps: Tenure,
        report: Report = "final",
        monitor_schedules: bool = False,
        exclude_schedules: Collection[str] = (),
    ) -> None:
        if report not in get_args(Report):
            raise SettingsError(f"report must be 'final' or 'every', not {report!r}")
        if isinstance(exclude_schedules, str):
            raise SettingsError(f"exclude_schedules must be a list of names, not the text {exclude_schedules!r}")
        self.report = report
        self.monitor_schedules = monitor_schedules
        self.exclude_schedules = frozenset(exclude_schedules)
        for app in apps:
            instrument(app)

    @staticmethod
    def setup_once() -> None:
        for logger in _LOGGERS:
            ignore_logger(logger)
        add_global_event_processor(_drop_own_variables)

    def reports_every(self) -> bool:
        return self.report == "every"


def active_integration() -> TenureIntegration | None:
    """The integration of the client that is active here; None if Sentry is off."""
    client = sentry_sdk.get_client()
    return client.get_integration(TenureIntegration) if client.is_active() else None


def _drop_own_variables(event: Any, hint: Any) -> Any:  # noqa: ARG001 - the SDK's signature
    """Leave out the local variables of Tenure's own functions: they contain whole jobs, in which nothing is masked."""
    if active_integration() is not None:
        for error in (event.get("exception") or {}).get("values") or ():
            for frame in (error.get("stacktrace") or {}).get("frames") or ():
                if (frame.get("abs_path") or "").startswith(_OWN_CODE):
                    frame.pop("vars", None)
    return event


def instrument(app: Tenure) -> None:
    """Let the active TenureIntegration see the jobs of an app; a second call changes nothing."""
    from tenure.integrations.sentry.check_ins import CheckIns
    from tenure.integrations.sentry.ended_jobs import EndedJobs
    from tenure.integrations.sentry.tracer import SentryTracer

    if app.trace_with(SentryTracer(app)):
        app.listen(EndedJobs())
        app.listen(CheckIns(app))
