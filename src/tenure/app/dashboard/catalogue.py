"""Every command: the web page, the JSON API and the command line find them here by the name of their action."""

from typing import Any

from tenure.app.dashboard.core import Command
from tenure.app.dashboard.guards import ResetGuard
from tenure.app.dashboard.job_actions import CancelJobs, DeleteJobs, RescheduleJobs, RetryJobs
from tenure.app.dashboard.job_edit import EditJob
from tenure.app.dashboard.letter_actions import DeleteLetters, ReplayLetters
from tenure.app.dashboard.queues import DrainQueue, PauseQueue, ResumeQueue
from tenure.app.dashboard.schedule_actions import PauseSchedule, ResumeSchedule, RunSchedule
from tenure.app.dashboard.workers import DrainWorker, ResumeWorker

COMMANDS: tuple[type[Any], ...] = (
    RetryJobs,
    EditJob,
    CancelJobs,
    RescheduleJobs,
    DeleteJobs,
    PauseQueue,
    ResumeQueue,
    DrainQueue,
    DrainWorker,
    ResumeWorker,
    ResetGuard,
    ReplayLetters,
    DeleteLetters,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
)
BY_ACTION: dict[str, type[Command]] = {command.action: command for command in COMMANDS}
