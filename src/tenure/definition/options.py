"""The options a job may be given, typed once for the decorator, `using`, `replace` and the builder."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypedDict

from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.retry import Backoff, Strategy
from tenure.errors import InvalidJob

PriorityName = Literal["low", "normal", "medium", "high"]
PRIORITIES: dict[str, int] = {"low": 2, "normal": 5, "medium": 5, "high": 8}

_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")


class JobOptions(TypedDict, total=False):
    """Everything about a job except which handler it calls and with what."""

    queue: str
    name: str | None
    priority: int | PriorityName
    max_retries: int
    timeout: Duration | None
    delay: Duration
    at: datetime | None
    expires_at: datetime | None
    single_instance: bool
    idempotency_key: str | None
    backoff: Backoff | Strategy | None
    max_crashes: int
    meta: dict[str, Any]
    environments: tuple[str, ...]
    depends_on: tuple[str, ...]
    enabled: bool


class JobFields(JobOptions, total=False):
    """What `Job.replace` may change: the options, and what the job is."""

    handler: str
    payload: Any
    id: str | None
    cron: str | None
    timezone: str | None


def normalise(options: dict[str, Any]) -> dict[str, Any]:
    """Options as people write them, turned into the values a Job holds; unknown names are refused."""
    unknown = options.keys() - JobFields.__annotations__.keys() - JobOptions.__annotations__.keys()
    if unknown:
        raise InvalidJob(f"unknown job option {min(unknown)!r}; known ones: {', '.join(JobOptions.__annotations__)}")
    values = dict(options)
    if isinstance(values.get("priority"), str):
        values["priority"] = _priority(values["priority"])
    for length in ("timeout", "delay"):
        if values.get(length) is not None:
            values[length] = to_seconds(values[length], length)
    for moment in ("at", "expires_at"):
        if values.get(moment) is not None:
            values[moment] = to_moment(values[moment], moment)
    if isinstance(values.get("backoff"), str):
        values["backoff"] = Backoff(strategy=values["backoff"])
    for names in ("environments", "depends_on"):
        if names in values:
            values[names] = (values[names],) if isinstance(values[names], str) else tuple(values[names])
    return values


def _priority(name: str) -> int:
    try:
        return PRIORITIES[name.lower()]
    except KeyError:
        raise InvalidJob(f"priority {name!r} is unknown; use 0 … 9 or one of {', '.join(PRIORITIES)}") from None


def check_queue(queue: str) -> str:
    """The name itself, if it can name a queue on every backend."""
    if not isinstance(queue, str) or not _matches(_QUEUE, queue):
        raise InvalidJob(
            f"{queue!r} cannot name a queue; use 1 to 100 letters, digits, '.', '_' or '-', "
            "starting with a letter or digit"
        )
    return queue


def check_key(key: str) -> str:
    """The name itself, if it can name a handler."""
    if not isinstance(key, str) or not _matches(_KEY, key):
        raise InvalidJob(f"{key!r} cannot name a handler; use 1 to 200 letters, digits, '_', '.', ':', '/' or '-'")
    return key


@lru_cache(maxsize=4096)
def _matches(grammar: re.Pattern[str], name: str) -> bool:
    return grammar.fullmatch(name) is not None
