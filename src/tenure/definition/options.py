"""The options a job may be given, typed once for the decorator, `using`, `replace` and the builder."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.retry import Backoff, Strategy
from tenure.errors import InvalidJob
from tenure.guards.rate import parse

if TYPE_CHECKING:
    from tenure.definition.job import Job

PriorityName = Literal["low", "normal", "medium", "high"]
PRIORITIES: dict[str, int] = {"low": 2, "normal": 5, "medium": 5, "high": 8}

FOLLOWERS = ("then", "on_failure", "finally_", "chain")

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
    idempotency_ttl: Duration | None
    key: str | None
    at_most: int | None
    rate: str | int | None
    breaker: str | None
    unique: str | None
    duplicate: Literal["return", "refuse"]
    backoff: Backoff | Strategy | None
    max_crashes: int
    meta: dict[str, Any]
    then: "Job | Sequence[Job]"
    on_failure: "Job | Sequence[Job]"
    finally_: "Job | Sequence[Job]"
    chain: "Sequence[Job]"
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
    return {name: _read(name, value) for name, value in options.items()}


def _read(name: str, value: Any) -> Any:
    reader = _READERS.get(name)
    return value if reader is None or value is None else reader(value)


def _priority(name: int | str) -> int:
    if not isinstance(name, str):
        return name
    try:
        return PRIORITIES[name.lower()]
    except KeyError:
        raise InvalidJob(f"priority {name!r} is unknown; use 0 … 9 or one of {', '.join(PRIORITIES)}") from None


def _backoff(backoff: Backoff | Strategy) -> Backoff:
    return Backoff(strategy=backoff) if isinstance(backoff, str) else backoff


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple, set, frozenset)) else (value,)


_READERS: dict[str, Callable[[Any], Any]] = {
    "priority": _priority,
    "timeout": lambda length: to_seconds(length, "timeout"),
    "delay": lambda length: to_seconds(length, "delay"),
    "idempotency_ttl": lambda length: to_seconds(length, "idempotency_ttl"),
    "rate": lambda rate: str(parse(rate)),
    "at": lambda moment: to_moment(moment, "at"),
    "expires_at": lambda moment: to_moment(moment, "expires_at"),
    "backoff": _backoff,
    **dict.fromkeys((*FOLLOWERS, "environments", "depends_on"), _listed),
}


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
