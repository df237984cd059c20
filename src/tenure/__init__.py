"""Tenure holds jobs under lease: background jobs and schedules that are never lost.

PYTEST_DONT_REWRITE: without this word pytest warns if a program imports Tenure before it starts pytest.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.app import Tenure
    from tenure.backends.url import register_backend
    from tenure.cron.builder import ScheduleBuilder
    from tenure.cron.schedule import Schedule
    from tenure.definition.builder import JobBuilder
    from tenure.definition.context import Context, current_context
    from tenure.definition.job import Job, JobOptions
    from tenure.definition.job_function import JobFunction
    from tenure.definition.job_handle import JobHandle
    from tenure.definition.job_info import AttemptInfo, JobInfo
    from tenure.definition.parent import PARENT_ERROR, PARENT_RESULT
    from tenure.definition.provided import PROVIDED
    from tenure.definition.retry import Backoff, RetryAfter, RetryPolicy
    from tenure.errors import Cancel, Fail, Postpone, Retry, Snooze, TenureError
    from tenure.execution.outcome import Outcome
    from tenure.recipients import Notification
    from tenure.worker.lane import Lane
else:
    # Imported on first use: the command line answers --help in a third of the time. A type checker does not see
    # __getattr__, so that it still refuses names that do not exist.
    _HOMES = {
        "AttemptInfo": "tenure.definition.job_info",
        "Backoff": "tenure.definition.retry",
        "Cancel": "tenure.errors",
        "Context": "tenure.definition.context",
        "Fail": "tenure.errors",
        "Job": "tenure.definition.job",
        "JobBuilder": "tenure.definition.builder",
        "JobFunction": "tenure.definition.job_function",
        "JobHandle": "tenure.definition.job_handle",
        "JobInfo": "tenure.definition.job_info",
        "JobOptions": "tenure.definition.job",
        "Lane": "tenure.worker.lane",
        "Notification": "tenure.recipients",
        "Outcome": "tenure.execution.outcome",
        "PARENT_ERROR": "tenure.definition.parent",
        "PARENT_RESULT": "tenure.definition.parent",
        "PROVIDED": "tenure.definition.provided",
        "Postpone": "tenure.errors",
        "Retry": "tenure.errors",
        "RetryAfter": "tenure.definition.retry",
        "RetryPolicy": "tenure.definition.retry",
        "Schedule": "tenure.cron.schedule",
        "ScheduleBuilder": "tenure.cron.builder",
        "Snooze": "tenure.errors",
        "Tenure": "tenure.app",
        "TenureError": "tenure.errors",
        "current_context": "tenure.definition.context",
        "register_backend": "tenure.backends.url",
    }

    def __getattr__(name):
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'tenure' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


__version__ = "0.1.0"
__all__ = [
    "PARENT_ERROR",
    "PARENT_RESULT",
    "PROVIDED",
    "AttemptInfo",
    "Backoff",
    "Cancel",
    "Context",
    "Fail",
    "Job",
    "JobBuilder",
    "JobFunction",
    "JobHandle",
    "JobInfo",
    "JobOptions",
    "Lane",
    "Notification",
    "Outcome",
    "Postpone",
    "Retry",
    "RetryAfter",
    "RetryPolicy",
    "Schedule",
    "ScheduleBuilder",
    "Snooze",
    "Tenure",
    "TenureError",
    "__version__",
    "current_context",
    "register_backend",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
