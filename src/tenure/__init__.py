"""Tenure holds jobs under lease: background jobs and schedules that are never lost."""

from tenure.app import Tenure
from tenure.backends.opening import register_backend
from tenure.definition.builder import JobBuilder
from tenure.definition.context import Context, current_context
from tenure.definition.function import JobFunction
from tenure.definition.job import Job
from tenure.definition.options import JobOptions
from tenure.definition.retry import Backoff, RetryPolicy
from tenure.errors import Cancel, Postpone, Retry, TenureError
from tenure.execution.outcome import Outcome

__version__ = "0.1.0"
__all__ = [
    "Backoff",
    "Cancel",
    "Context",
    "Job",
    "JobBuilder",
    "JobFunction",
    "JobOptions",
    "Outcome",
    "Postpone",
    "Retry",
    "RetryPolicy",
    "Tenure",
    "TenureError",
    "__version__",
    "current_context",
    "register_backend",
]
