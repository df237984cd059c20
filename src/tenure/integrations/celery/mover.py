"""Moves tasks that wait in Celery's queues on Redis to Tenure; see `moved_messages` for what it promises.

A task that a Celery worker holds is not moved: one that runs, one that it has prefetched, and one with an ETA that it
keeps in its memory. A Celery worker that stops regularly gives the latter two back to the queue.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tenure.app.tenure import Tenure
from tenure.definition.job import Job, JobOptions
from tenure.definition.job_function import JobFunction
from tenure.errors import NotSupported
from tenure.integrations.celery.app import CeleryApp
from tenure.integrations.celery.options import HighestPriority, aware, priority_of, time_limit
from tenure.integrations.celery.task import CeleryTask
from tenure.integrations.moved_messages import (
    MoveReport,
    OldList,
    OldMessage,
    RedisClient,
    UnmovedMessage,
    find_task,
    move,
)

_PRIORITIES = range(10)  # the steps of kombu are 0, 3, 6 and 9 unless they are configured
_UNACKED = "unacked"
SEPARATOR = "\x06\x16"  # kombu's default
_UNKNOWN_ID = ""

Tasks = Mapping[str, "JobFunction[..., Any] | CeleryTask[..., Any]"]


def move_waiting(
    app: Tenure | CeleryApp,
    client: RedisClient,
    queues: Mapping[str, str],
    tasks: Tasks | None = None,
    *,
    highest_priority: HighestPriority | None = None,
    prefix: str = "",
    separator: str = SEPARATOR,
) -> MoveReport:
    """Move what waits in queues of Celery, such as `{"celery": "default"}`, into queues of Tenure.

    `client` is a redis-py client for the broker. `tasks` gives the job for each name of a task; a CeleryApp knows those
    of its own tasks. `highest_priority=0` keeps the priorities, which are left out otherwise. `prefix` and `separator`
    are the transport options `global_keyprefix` and `sep`. The jobs keep the ids of the tasks.
    """
    known: dict[str, Any] = {} if isinstance(app, Tenure) else dict(app.tasks)
    known.update(tasks or {})
    report = MoveReport()
    for old, new in queues.items():
        reader = _Reader(known, new, highest_priority)
        for priority in _PRIORITIES:
            key = f"{prefix}{old}{separator}{priority}" if priority else f"{prefix}{old}"
            move(app if isinstance(app, Tenure) else app.app, client, OldList(key, "RIGHT"), reader.read, report)
    report.held = client.hlen(f"{prefix}{_UNACKED}")
    return report


class _Reader:
    """Reads messages of Celery's task protocol 2."""

    def __init__(self, tasks: Mapping[str, Any], queue: str, highest: HighestPriority | None) -> None:
        self._tasks = tasks
        self._queue = queue
        self._highest: HighestPriority | None = highest

    def read(self, raw: bytes | str) -> OldMessage:
        try:
            message = json.loads(raw)
            headers = message["headers"]
            id, name = str(headers["id"] or ""), str(headers["task"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return OldMessage(_UNKNOWN_ID, "", _unreadable)
        if not id:
            return OldMessage(_UNKNOWN_ID, name, _unreadable)
        return OldMessage(id, name, lambda: self._job(message, headers, name))

    def _job(self, message: dict[str, Any], headers: dict[str, Any], name: str) -> Job:
        found = find_task(self._tasks, name)
        function: JobFunction[..., Any] = found.job if isinstance(found, CeleryTask) else found
        args, kwargs = _arguments(message, headers)
        job = function.using(**self._options(message, headers, name)).build(*args, **kwargs)
        retries = int(headers.get("retries") or 0)
        return job.replace(max_retries=max(0, job.max_retries - retries)) if retries else job

    def _options(self, message: dict[str, Any], headers: dict[str, Any], name: str) -> JobOptions:
        options: JobOptions = {"queue": self._queue}
        if eta := headers.get("eta"):
            options["at"] = aware(datetime.fromisoformat(eta))
        if expires := headers.get("expires"):
            options["expires_at"] = aware(datetime.fromisoformat(expires))
        priority = message.get("properties", {}).get("priority")
        if priority is not None and self._highest is not None:
            options["priority"] = priority_of(name, priority, self._highest)
        try:
            limit = time_limit(name, *(headers.get("timelimit") or (None, None)))
        except NotSupported as error:
            raise UnmovedMessage(str(error)) from error
        if limit is not None:
            options["timeout"] = limit
        return options


def _arguments(message: dict[str, Any], headers: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    if message.get("content-type") != "application/json":
        raise UnmovedMessage(
            f"the body is {message.get('content-type')!r}, and only JSON is read: nothing is ever unpickled"
        )
    if headers.get("compression"):
        raise UnmovedMessage("the body is compressed")
    try:
        body = message["body"]
        if message.get("properties", {}).get("body_encoding") == "base64":
            body = base64.b64decode(body)
        args, kwargs, embed = json.loads(body)
    except (KeyError, TypeError, ValueError, RecursionError, binascii.Error) as error:
        raise UnmovedMessage(f"the body cannot be read: {error}") from error
    if headers.get("group") or any((embed or {}).values()):
        raise UnmovedMessage("it belongs to a group, a chord or a chain, or has links; let Celery finish it")
    return list(args), dict(kwargs)


def _unreadable() -> Job:
    raise UnmovedMessage("it is no message of Celery's task protocol 2")
