"""Dramatiq: keep `actor.send(...)` while actors become jobs, and move what waits in Redis.

Dramatiq itself is not imported. What has no counterpart raises NotSupported, which says what to write instead.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from tenure.app.tenure import Tenure
from tenure.definition.handler import HandlerOptions
from tenure.definition.job import Job, JobOptions
from tenure.definition.job_function import JobFunction
from tenure.definition.job_handle import JobHandle
from tenure.definition.retry import Backoff
from tenure.errors import NotSupported
from tenure.integrations.moved_messages import (
    MoveReport,
    OldList,
    OldMessage,
    RedisClient,
    UnmovedMessage,
    find_task,
    move,
)

P = ParamSpec("P")
R = TypeVar("R")

Milliseconds = int | float | timedelta
MAX_RETRIES = 20  # the defaults of Dramatiq's middleware
MIN_BACKOFF = 15_000
MAX_BACKOFF = 7 * 86_400_000
TIME_LIMIT = 600_000

_INSTEAD = {
    "broker": "leave it out; the app has its own backend",
    "on_failure": "use actor.job.using(on_failure=...)",
    "on_retry_exhausted": "use actor.job.using(on_failure=...), or the setting on_dead",
    "on_success": "use actor.job.using(then=...)",
    "pipe_target": "use actor.job.using(chain=[...])",
    "priority": "use actor.job.using(priority=...), from 0 to 9, where 9 runs first",
    "result_ttl": "set the retention",
    "retry_when": "use app.job(retry_on=...)",
}
_METHODS = {
    "message": "use actor.job.build(...)",
    "message_with_options": "use actor.job.using(...).build(...)",
    "logger": "use logging.getLogger(__name__)",
}
_KEPT = frozenset({"redis_message_id", "eta", "retries", "traceback", "requeue_timestamp", "throws"})


class DramatiqMessage(Generic[R]):
    """What `send` returns. `job` is the handle of Tenure, which can do more."""

    def __init__(self, job: JobHandle[R]) -> None:
        self.job = job
        self.message_id = job.id

    def get_result(self, *, block: bool = False, timeout: int | None = None) -> R:
        """The result; with `block`, wait for it, by default 10 s. Raises ResultTimeout or JobFailed."""
        return self.job.result((10.0 if timeout is None else timeout / 1000) if block else 0)


class DramatiqActor(Generic[P, R]):
    """An actor; calling it runs the function here and now. `job` is the job function of Tenure behind it."""

    def __init__(self, job: JobFunction[P, R], app: Tenure) -> None:
        update_wrapper(self, job.original)
        self.job = job
        self.fn = job.original
        self.actor_name = job.key
        self._app = app

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.job(*args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> DramatiqMessage[R]:
        """Enqueue one job with these arguments."""
        return self.send_with_options(args=args, kwargs=kwargs)

    def send_with_options(
        self,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        delay: Milliseconds | None = None,
        **options: Any,
    ) -> DramatiqMessage[R]:
        """Enqueue one job; `delay` is in milliseconds, or a timedelta."""
        found: JobOptions = dict(_options(f"send of {self.actor_name!r}", options))  # type: ignore[assignment]
        if delay is not None:
            found["delay"] = _seconds(delay)
        function: JobFunction[..., R] = self.job
        return DramatiqMessage(self._app.enqueue(function.using(**found).build(*args, **(kwargs or {}))))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f"; {_METHODS[name]}" if name in _METHODS else ""
            raise AttributeError(f"'DramatiqActor' object has no attribute {name!r}{hint}")


class ActorDecorator(Protocol):
    """Makes a function an actor."""

    def __call__(self, function: Callable[P, R], /) -> DramatiqActor[P, R]: ...


class DramatiqApp:
    """Its actors become jobs of `app` under their names, with the defaults of Dramatiq: 20 retries, 10 minutes."""

    def __init__(self, app: Tenure) -> None:
        self.app = app
        self.actors: dict[str, DramatiqActor[..., Any]] = {}

    @overload
    def actor(self, function: Callable[P, R], /) -> DramatiqActor[P, R]: ...

    @overload
    def actor(self, function: None = None, /, **options: Any) -> ActorDecorator: ...

    def actor(self, function: Any = None, /, **options: Any) -> Any:
        """Make a function an actor: `@dramatiq.actor`, or `@dramatiq.actor(queue_name="emails", max_retries=3)`."""

        def decorate(function: Callable[..., Any]) -> DramatiqActor[..., Any]:
            name = options.get("actor_name") or function.__name__
            given = {
                "max_retries": MAX_RETRIES, "min_backoff": MIN_BACKOFF, "max_backoff": MAX_BACKOFF,
                "time_limit": TIME_LIMIT, **options,
            }  # fmt: skip
            given.pop("actor_name", None)
            found: HandlerOptions = {"name": name, **_options(f"the actor {name!r}", given)}
            actor = DramatiqActor(self.app.job(**found)(function), self.app)
            self.actors[name] = actor
            return actor

        return decorate if function is None else decorate(function)


def move_waiting(
    app: Tenure | DramatiqApp,
    client: RedisClient,
    queues: Mapping[str, str],
    actors: Mapping[str, "JobFunction[..., Any] | DramatiqActor[..., Any]"] | None = None,
    *,
    namespace: str = "dramatiq",
) -> MoveReport:
    """Move what waits in queues of Dramatiq on Redis, such as `{"default": "default"}`, into queues of Tenure.

    `client` is a redis-py client for the broker. `actors` gives the job for each name of an actor; a DramatiqApp knows
    those of its own actors. The jobs keep the ids of the messages. See `moved_messages` for what it promises.
    """
    known: dict[str, Any] = {} if isinstance(app, Tenure) else dict(app.actors)
    known.update(actors or {})
    report = MoveReport()
    for old, new in queues.items():
        for queue in (old, f"{old}.DQ"):
            source = OldList(f"{namespace}:{queue}", "LEFT", f"{namespace}:{queue}.msgs")
            reader = _Reader(known, new, client, source)
            move(app if isinstance(app, Tenure) else app.app, client, source, reader.read, report)
            held = client.scan_iter(match=f"{namespace}:__acks__.*.{queue}")
            report.held += sum(client.scard(key) for key in held)
    return report


class _Reader:
    """Reads messages that Dramatiq encoded as JSON."""

    def __init__(self, actors: Mapping[str, Any], queue: str, client: RedisClient, source: OldList) -> None:
        self._actors = actors
        self._queue = queue
        self._client = client
        self._source = source

    def read(self, taken: bytes | str) -> OldMessage:
        raw = self._client.hget(self._source.bodies or "", taken)
        try:
            message = json.loads(raw)
            id, name = str(message["message_id"] or ""), str(message["actor_name"])
        except (ValueError, TypeError, KeyError, RecursionError):
            id = name = ""
        if not id:
            return OldMessage(str(taken), name, _unreadable)
        return OldMessage(id, name, lambda: self._job(message, name))

    def _job(self, message: dict[str, Any], name: str) -> Job:
        found = find_task(self._actors, name)
        function: JobFunction[..., Any] = found.job if isinstance(found, DramatiqActor) else found
        options = dict(message.get("options") or {})
        try:
            own = _options(name, {key: value for key, value in options.items() if key not in _KEPT})
        except NotSupported as error:
            raise UnmovedMessage(str(error)) from error
        given: JobOptions = {"queue": self._queue, **own}  # type: ignore[typeddict-unknown-key]
        if eta := options.get("eta"):
            given["at"] = datetime.fromtimestamp(eta / 1000, UTC)
        if age := options.get("max_age"):
            given["expires_at"] = datetime.fromtimestamp((message["message_timestamp"] + age) / 1000, UTC)
        job = function.using(**given).build(*message.get("args", ()), **message.get("kwargs", {}))
        retries = int(options.get("retries") or 0)
        return job.replace(max_retries=max(0, job.max_retries - retries)) if retries else job


def _options(where: str, given: Mapping[str, Any]) -> HandlerOptions:
    """Options of Dramatiq, in milliseconds, as options of Tenure."""
    options, left = HandlerOptions(), {name: value for name, value in given.items() if value is not None}
    if (queue := left.pop("queue_name", None)) is not None:
        options["queue"] = queue
    if (retries := left.pop("max_retries", None)) is not None:
        options["max_retries"] = retries
    shortest, longest = left.pop("min_backoff", None), left.pop("max_backoff", None)
    if shortest is not None or longest is not None:
        options["backoff"] = _backoff(shortest or MIN_BACKOFF, longest or MAX_BACKOFF)
    if (limit := left.pop("time_limit", None)) is not None and limit != float("inf"):
        options["timeout"] = _seconds(limit)
    if (age := left.pop("max_age", None)) is not None:
        options["expires_at"] = f"in {_seconds(age):.6f} s"
    if throws := left.pop("throws", ()):
        options["give_up_on"] = throws
    if left.pop("store_results", True) is not True or left.pop("priority", 0) != 0:
        raise NotSupported(f"{where}: results are always stored, and for a priority {_INSTEAD['priority']}")
    for name, value in left.items():
        instead = _INSTEAD.get(name, "see the migration guide for Dramatiq")
        raise NotSupported(f"{where} does not support {name}={value!r:.60}; {instead}")
    return options


def _backoff(shortest: Milliseconds, longest: Milliseconds) -> Backoff:
    """Dramatiq waits from one to two times the doubled minimum, which is 1.5 times ± a third."""
    return Backoff(base=1.5 * _seconds(shortest), cap=_seconds(longest), jitter=1 / 3)


def _seconds(value: Milliseconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value / 1000


def _unreadable() -> Job:
    raise UnmovedMessage("it is no message that Dramatiq encoded as JSON; nothing is ever unpickled")
