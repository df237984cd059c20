"""Celery: keep `task.delay(...)` and `task.apply_async(...)` while tasks become jobs, and move what waits in Redis.

Celery itself is not imported. What has no counterpart raises NotSupported, which says what to write instead.
"""

from tenure.errors import NotSupported
from tenure.integrations.celery.app import CeleryApp, shared_task
from tenure.integrations.celery.beat import crontab
from tenure.integrations.celery.mover import move_waiting
from tenure.integrations.celery.result import AsyncResult
from tenure.integrations.celery.signature import Chain, Signature, chain, chord, group
from tenure.integrations.celery.task import CeleryTask
from tenure.integrations.moved_messages import LeftMessage, MoveReport

__all__ = [
    "AsyncResult",
    "CeleryApp",
    "CeleryTask",
    "Chain",
    "LeftMessage",
    "MoveReport",
    "NotSupported",
    "Signature",
    "chain",
    "chord",
    "crontab",
    "group",
    "move_waiting",
    "shared_task",
]
