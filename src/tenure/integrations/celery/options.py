"""The options of Celery's `@app.task` and `apply_async`, as options of Tenure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tenure.definition.error_rules import ErrorMatch
from tenure.definition.handler import HandlerOptions
from tenure.definition.job import JobOptions
from tenure.definition.limits import MAX_COUNT
from tenure.definition.retry import Backoff
from tenure.errors import NotSupported

HighestPriority = Literal[0, 9]
MAX_RETRIES = 3  # the defaults of Celery's Task
RETRY_SECONDS = 180.0
_BACKOFF_CAP = 600.0
_PERIODS = {"s": "s", "m": "min", "h": "h"}

_INSTEAD = {  # options of Celery without a counterpart, with what to write
    "base": "use app.middleware(...), or a handler class with before_run and after_run",
    "chord": "let the last job count what is done in your database, and enqueue the next job",
    "compression": "leave it out; keep payloads small",
    "connection": "leave it out; task.job.using(connection=...) joins a transaction of your database",
    "exchange": "use queue=",
    "exchange_type": "use queue=",
    "expiration": "use expires=",
    "group_id": "use app.enqueue_many([...])",
    "on_failure": "use link_error= at the call, or the setting on_dead",
    "on_success": "use link= at the call, or on_success in a handler class",
    "producer": "leave it out; the app has one producer",
    "pydantic": "leave it out; Tenure reads pydantic models by their annotations",
    "publisher": "leave it out; the app has one producer",
    "reply_to": "leave it out; results are stored beside the jobs",
    "retry": "leave it out; an enqueue that fails raises BackendUnavailable",
    "retry_policy": "leave it out; an enqueue that fails raises BackendUnavailable",
    "router": "use queue=",
    "routing_key": "use queue=",
    "send_events": "use app.listen(...)",
    "shadow": "use task.job.using(name=...)",
    "store_errors_even_if_ignored": "leave it out; errors are always stored",
    "throws": "leave it out; each failure is logged with its type",
}
_NATURAL: dict[str, tuple[tuple[Any, ...], str]] = {  # options that Tenure fulfils for these values only
    "acks_late": ((True,), "a job is always settled after it ran; max_crashes=0 keeps it from running again"),
    "acks_on_failure_or_timeout": ((True,), "a job that failed for good becomes a dead letter, which you can replay"),
    "reject_on_worker_lost": ((True,), "a job whose worker died runs again; max_crashes=0 keeps it from that"),
    "retry": ((False,), _INSTEAD["retry"]),
    "send_events": ((True,), _INSTEAD["send_events"]),
    "serializer": (("json",), "payloads are JSON; use typed payloads for other values"),
    "track_started": ((True,), "Tenure always knows which jobs run"),
    "typing": ((True,), "Tenure always checks the arguments"),
    "ignore_result": ((None,), "set ignore_result on the decorator, which holds for all calls"),
}


def refuse(where: str, name: str, value: Any = None) -> NotSupported:
    """The error for an option without a counterpart."""
    instead = _NATURAL[name][1] if name in _NATURAL else _INSTEAD.get(name, "see the migration guide for Celery")
    return NotSupported(f"{where} does not support {name}={value!r:.60}; {instead}")


@dataclass(frozen=True, slots=True)
class CeleryOptions:
    """What `@app.task(...)` was given: options of the handler, and what concerns the adapter alone."""

    handler: HandlerOptions
    call: Mapping[str, Any]
    bind: bool
    ignore_result: bool
    retry_delay: float


class _Given:
    """The options of one call; each is taken once, and what is left is refused."""

    def __init__(self, where: str, options: Mapping[str, Any]) -> None:
        self._where = where
        self._options = dict(options)

    def take(self, name: str, default: Any = None) -> Any:
        return self._options.pop(name, default)

    def refuse_rest(self) -> None:
        for name, value in self._options.items():
            if name not in _NATURAL or value not in _NATURAL[name][0]:
                raise refuse(self._where, name, value)


def task_options(name: str, options: Mapping[str, Any], highest: HighestPriority | None) -> CeleryOptions:
    """The options of a decorator; anything that Tenure would do in another way is refused."""
    given = _Given(f"the task {name!r}", options)
    ignore_result = bool(given.take("ignore_result", False))
    delay = _seconds("default_retry_delay", given.take("default_retry_delay", RETRY_SECONDS))
    handler: HandlerOptions = {"name": name, **_retry_options(given, delay)}
    if highest is not None:
        handler["priority"] = 9 - highest  # Celery's default is 0: first on Redis, last on RabbitMQ
    if (rate := given.take("rate_limit")) is not None:
        handler["rate"] = _rate(rate)
    call = {key: given.take(key) for key in ("expires",) if key in options}
    at_once = {key: given.take(key) for key in ("queue", "priority", "time_limit", "soft_time_limit") if key in options}
    handler.update(job_options(f"the task {name!r}", at_once, highest))  # type: ignore[typeddict-item]
    bind = bool(given.take("bind", False))
    given.refuse_rest()
    return CeleryOptions(handler, call, bind, ignore_result, delay)


def job_options(where: str, options: Mapping[str, Any], highest: HighestPriority | None) -> JobOptions:
    """The options of a call of `apply_async`, without its arguments, id and links."""
    given = _Given(where, {name: value for name, value in options.items() if value is not None})
    found: JobOptions = {}
    if (queue := given.take("queue")) is not None:
        found["queue"] = queue
    if (countdown := given.take("countdown")) is not None:
        found["delay"] = max(0, countdown)
    if (eta := given.take("eta")) is not None:
        found["at"] = aware(eta)
    if (expires := given.take("expires")) is not None:
        found["expires_at"] = _expiry(expires)
    if (priority := given.take("priority")) is not None:
        found["priority"] = priority_of(where, priority, highest)
    if (headers := given.take("headers")) is not None:
        found["meta"] = dict(headers)
    hard, soft = given.take("time_limit"), given.take("soft_time_limit")
    if (timeout := time_limit(where, hard, soft)) is not None:
        found["timeout"] = timeout
    given.refuse_rest()
    return found


def time_limit(where: str, hard: float | None, soft: float | None) -> float | None:
    """The one limit of a job; it warns the function and, a second later, kills it."""
    if hard is not None and soft is not None and hard != soft:
        raise NotSupported(
            f"{where} has both time_limit={hard!r} and soft_time_limit={soft!r}, and a job has one limit: its timeout "
            "raises DeadlineExceeded in the function, and one second later kills its process; write soft_time_limit "
            "alone, and clean up within that second, or ask ctx.time_left"
        )
    return hard if soft is None else soft


def priority_of(where: str, priority: int, highest: HighestPriority | None) -> int:
    """The priority in Tenure, where 9 runs first."""
    if highest is None:
        raise NotSupported(
            f"{where} has priority={priority!r}, and Celery's brokers count in opposite directions; write "
            "CeleryApp(app, highest_priority=0) if the broker was Redis, and highest_priority=9 for RabbitMQ"
        )
    return priority if highest == 9 else 9 - priority


def _retry_options(given: _Given, delay: float) -> HandlerOptions:
    retry_on, give_up_on = given.take("autoretry_for"), given.take("dont_autoretry_for")
    retry_kwargs = dict(given.take("retry_kwargs", {}))
    max_retries = given.take("max_retries", MAX_RETRIES)
    if retry_on:
        max_retries = retry_kwargs.pop("max_retries", max_retries)
    count = MAX_COUNT if max_retries is None else max_retries  # None means for ever
    backoff = _backoff(given, _seconds("countdown", retry_kwargs.pop("countdown", delay)))
    if retry_kwargs:
        raise refuse("@task", f"retry_kwargs[{min(retry_kwargs)!r}]", retry_kwargs[min(retry_kwargs)])
    options: HandlerOptions = {"max_retries": count, "backoff": backoff}
    if retry_on and count:
        options["retry_on"] = _classes(retry_on)
        if give_up_on:
            options["give_up_on"] = _classes(give_up_on)
    else:
        options["give_up_on"] = Exception  # without autoretry_for, only self.retry() makes Celery try again
    return options


def _backoff(given: _Given, fixed: float) -> Backoff:
    """Celery's delays: fixed, or doubled with a random part from nothing to all, which is half of it ± 100 %."""
    factor, cap = given.take("retry_backoff", False), given.take("retry_backoff_max", _BACKOFF_CAP)
    jitter = given.take("retry_jitter", True)
    if not factor:
        return Backoff(strategy="fixed", base=fixed)
    base = float(max(1, int(factor)))
    return Backoff(base=base / 2 if jitter else base, cap=float(cap), jitter=1.0 if jitter else 0.0)


def _classes(given: Iterable[type[BaseException]] | type[BaseException]) -> ErrorMatch:
    return given if isinstance(given, type) else tuple(given)


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise NotSupported(f"{name} must be seconds or a timedelta, got {value!r:.60}")
    return float(seconds)


def _expiry(expires: float | datetime) -> datetime | str:
    return f"in {float(expires):.6f} s" if isinstance(expires, (int, float)) else aware(expires)


def aware(moment: datetime) -> datetime:
    """A worker of Celery reads a time without a zone as UTC, whatever its setting `timezone` is."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _rate(rate: str | float) -> str:
    """Celery's "100/m", or a number per second."""
    count, _, period = str(rate).partition("/")
    if not count.strip().isdigit() or period not in {"", *_PERIODS}:
        raise NotSupported(f"rate_limit={rate!r} is not a whole number per s, m or h; write rate_limit='100/m'")
    return f"{count}/{_PERIODS[period or 's']}"
