"""Tenure: the application object; it wires the parts of the library together."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from tenure import settings as setting
from tenure.app.backoff import find_backoff
from tenure.app.client import AppClient
from tenure.app.collector import find_measurement, own_collector
from tenure.app.current_transaction import CurrentTransaction
from tenure.app.dead_letters import DeadLetterQueue
from tenure.app.decorator import Decorator
from tenure.app.discovery import import_all
from tenure.app.guards import Guards
from tenure.app.late_settings import configure
from tenure.app.open_backends import OpenBackend, OpenBackends, Place, PlaceClock, Sealer
from tenure.app.override import Override, Placement, follow, overridden
from tenure.app.producer import Producer
from tenure.app.results import read_signals, summarise_stats
from tenure.app.stores import Stores, backend_name, rules_of
from tenure.app.tracing import Tracer, find_spans
from tenure.app.waiters import Waiters
from tenure.backends.contract import Backend, Parts, required
from tenure.backends.ledger import Ledger
from tenure.backends.messages import Lease, Message, Verdict
from tenure.builtin.event import Subscriber
from tenure.builtin.handlers import Builtins
from tenure.clock import Clock, SystemClock
from tenure.definition import given_job
from tenure.definition.builder import JobBuilder
from tenure.definition.context import BreakerScope, Context
from tenure.definition.duration import Duration, to_seconds
from tenure.definition.handler import HandlerOptions, Middleware, Registry, from_class
from tenure.definition.job import Job
from tenure.definition.job_function import JobFunction
from tenure.definition.job_handle import JobHandle, handles
from tenure.definition.job_info import JobInfo
from tenure.definition.moment import When
from tenure.definition.queues import Queue, Queues
from tenure.definition.retry import RetryPolicy, check_policy
from tenure.errors import SettingsError
from tenure.events import CancelResult, Listener, Listeners, RescheduleResult
from tenure.guards.store import Store
from tenure.metrics.collector import Collector
from tenure.metrics.queue_signals import QueueSignals
from tenure.metrics.statistics import By, Summary
from tenure.permissions import Argument
from tenure.recipients import Notification

if TYPE_CHECKING:
    from tenure.aio import Async
    from tenure.app.cron import Cron
    from tenure.app.jobs import AppJobs
    from tenure.app.manual_worker import Manager
    from tenure.app.outbox import Outbox
    from tenure.app.outbox.outboxes import Outboxes
    from tenure.app.runtime import Runtime
    from tenure.cron.builder import ScheduleBuilder, Schedules
    from tenure.cron.publisher import TickPublisher
    from tenure.notifications.notice import RenderedNotice
    from tenure.notifications.notifier import Notifier
    from tenure.worker.lane import Lane, RunnerKind
    from tenure.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S", bound=Subscriber)
M = TypeVar("M", bound=Middleware)


class Tenure:
    """The jobs of an application: their handlers, queues, schedules, workers and settings.

    Nothing is opened until it is used, so an app can be created at import time.
    """

    def __init__(
        self, url: str | None = None, *, retry: RetryPolicy | None = None, clock: Clock | None = None, **settings: Any
    ) -> None:
        """`settings` override files and environment; `retry` replaces their backoff; `clock` is for tests.

        The setting `metrics` may be a collector of your own, or None to count nothing.
        """
        own = own_collector(settings)
        arguments = settings if url is None else {**settings, "url": url}
        self.settings, self.setting_origins = setting.load_with_origins(arguments, os.environ)
        setting.log_environment(self.settings, arguments, os.environ)
        self.clock = clock or SystemClock()
        self.listeners = Listeners()
        # Producers do not call the counters, which ignore their events: it would take 3 µs of each enqueue.
        self._worker_listeners = Listeners(self.listeners)
        measurement = find_measurement(self.settings.metrics, own)
        self.metrics = measurement.collector
        for listener in measurement.listeners:
            self._worker_listeners.add(listener)
        self._builtins = Builtins(self.settings.command, self.settings.shell, self.settings.event, self.settings.http)
        builtins = self._builtins.handlers(self.settings.max_retries)
        self.retry = check_policy(retry, "the app") or find_backoff(self.settings.backoff)
        self.queues = Queues(setting.named_queues(self.settings), strict=self.settings.strict_queues)
        self.registry = Registry(
            self.settings.allow, builtins, self._breaker, self._builtins.missing, self.queues, self.retry
        )
        self._backends = OpenBackends(Place(self.settings, self.clock), self._run_now, measurement.meters)
        self._current_clock = PlaceClock(self._backends)
        self._tracers: list[Tracer] = []
        if spans := find_spans(self.settings.tracing):
            self.trace_with(spans)
        self._sealer = Sealer(self.registry, self.queues, self._current_clock, self._tracers, self.settings.timezone)
        self._producer = Producer(self._backends, self._sealer, self.listeners)
        self.waiters = Waiters(self.parts, self._backends.url)
        self._client = AppClient(
            self.parts, self.open_backend, self._producer, self.waiters, self._await_end, self.registry,
            self.settings.sensitive,
        )  # fmt: skip
        self.guards = Guards(
            self._store, rules_of(self.settings), self.settings.lease, self._breaker_name, self.queues.find,
            lambda: self.parts().workers,
        )  # fmt: skip
        self._stores = Stores(self._backends)
        for alias, queue in self.settings.aliases.items():
            self.queues.alias(alias, queue)
        for name, notification in self.settings.notifications.items():
            self.notify(name, notification)

    @overload
    def job(self, function: Callable[Concatenate[Context, P], R], /) -> JobFunction[P, R]: ...

    @overload
    def job(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...

    @overload
    def job(self, function: None = None, /, **options: Unpack[HandlerOptions]) -> Decorator: ...

    def job(self, function: Any = None, /, **options: Unpack[HandlerOptions]) -> Any:
        """Make a function a job: `@app.job` or `@app.job(queue="emails", max_retries=3)`; `name` is its key."""
        own: HandlerOptions = {"max_retries": self.settings.max_retries, **options}
        decorator = Decorator(self.registry, self._enqueue, self._aenqueue, own)
        return decorator if function is None else decorator(function)

    def register(self, key: str, cls: type, /, **options: Unpack[HandlerOptions]) -> None:
        """Make a class with a `handle` method the handler for a key."""
        handler = from_class(key, cls, options)
        handler.defaults.setdefault("max_retries", self.settings.max_retries)
        self.registry.add(handler)

    def define(self, handler: str, payload: Any = None) -> JobBuilder:
        """Describe a job by its handler's key with a fluent builder."""
        found = self.registry.get(given_job.check_handler_key(handler))
        if payload is None and found.bind is not None:
            payload = {}  # a function's payload is the object of its arguments, even when there are none
        return JobBuilder(Job(handler=handler, payload=payload, **found.defaults), self._enqueue)

    @overload
    def schedule(self, job: JobFunction[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "ScheduleBuilder": ...

    @overload
    def schedule(self, job: Job | str, /, payload: Any = None) -> "ScheduleBuilder": ...

    def schedule(self, job: Any, /, *args: Any, **kwargs: Any) -> "ScheduleBuilder":
        """Run a job by schedule: `app.schedule(report, month=7).daily_at("02:00")`, or a handler's key with payload."""

        from tenure.cron.builder import ScheduleBuilder

        described = given_job.job_to_schedule(job, args, kwargs, self.define)
        return self.schedules.add(ScheduleBuilder(described, self._enqueue))

    @overload
    def enqueue(
        self, job: JobFunction[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle[T]: ...

    @overload
    def enqueue(self, job: JobFunction[P, R], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]: ...

    @overload
    def enqueue(
        self, job: Job, /, backend: str | None = None, *, connection: Any = None, wake: bool = False
    ) -> JobHandle[Any]: ...

    def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> JobHandle[Any]:
        """Enqueue one job, on the app's backend or on another one (a name from the settings, or a URL).

        With a `connection` to the backend's database the job joins its transaction: committed together, or never.
        A job function takes its arguments: `app.enqueue(send, user_id=42)` is `send.enqueue(user_id=42)`.
        """
        if isinstance(job, JobFunction):
            return job.enqueue(*args, **kwargs)
        return self._enqueue(given_job.check_job(job, "app.enqueue"), *args, **kwargs)

    def _enqueue(
        self, job: Job, backend: str | None = None, connection: Any = None, *, wake: bool = False
    ) -> JobHandle[Any]:
        id = self._producer.enqueue(job, backend, connection, wake=wake)
        return JobHandle(id, self._client if backend is None else self._client.on(backend))

    def enqueue_many(
        self, jobs: Iterable[Job], backend: str | None = None, *, connection: Any = None, wake: bool = False
    ) -> list[JobHandle[Any]]:
        """Enqueue many jobs, a thousand per round trip; each thousand is stored as a whole or not at all.

        A job whose `unique` text is taken is not stored, and its id is not returned. With a `connection` the jobs join
        its transaction, as in `enqueue`.
        """
        checked = given_job.check_iterable(jobs, "app.enqueue_many")
        return handles(self._producer.enqueue_many(checked, backend, connection, wake=wake), self._client.on(backend))

    def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> list[JobHandle[Any] | Exception]:
        """Enqueue independent jobs; return the handle of each, or the error that refused it."""
        checked, client = given_job.check_iterable(jobs, "app.enqueue_each"), self._client.on(backend)
        found = self._producer.enqueue_each(checked, backend)
        return [JobHandle(each, client) if isinstance(each, str) else each for each in found]

    def outbox(self, connection: Any) -> "Outbox":
        """Enqueues jobs for any backend in the transaction of this connection to a SQL database of the application.

        They wait in the table `tenure_outbox` there; a relay (`tenure outbox work`) moves them to their backend.
        """
        from tenure.app.outbox import Outbox

        return Outbox(connection, self._backends, self._sealer, self._producer, self._client)

    @overload
    def handle(self, id: str, type: type[T], backend: str | None = None) -> JobHandle[T]: ...

    @overload
    def handle(self, id: str, type: Any = None, backend: str | None = None) -> JobHandle[Any]: ...

    def handle(self, id: str, type: Any = None, backend: str | None = None) -> JobHandle[Any]:
        """The handle of a job by its id; its result is of this type, or of that which its handler declares."""
        return JobHandle(id, self._client.on(backend, type))

    def cancel(self, id: str, backend: str | None = None) -> CancelResult:
        """As `app.handle(id).cancel()`."""
        return self._client.on(backend).cancel(id)

    def reschedule(
        self, id: str, *, delay: Duration = 0, at: When | None = None, backend: str | None = None
    ) -> RescheduleResult:
        """As `app.handle(id).reschedule(...)`."""
        return self._client.on(backend).reschedule(id, delay, at)

    def dead_letters(self, backend: str | None = None) -> DeadLetterQueue:
        """The dead letters of the app's backend or of another one."""
        opened = self.open_backend(backend)

        def seal(handler: str, payload: Any) -> Message:
            return self._sealer.message(self.define(handler, payload).build(), opened)

        return DeadLetterQueue(opened.backend, self._backends.url(backend), seal, self._worker_listeners)

    def result(self, id: str, timeout: Duration | None = 0, backend: str | None = None) -> Any:
        """As `app.handle(id).result(timeout)`, but without a timeout it does not wait."""
        return self.handle(id, backend=backend).result(timeout)

    def statistics(self, last: Duration = "24h", by: By = "queue") -> list[Summary]:
        """Counts, durations and failures over about the last period, by queue or by handler."""
        return summarise_stats(
            required(self.parts().stats, "statistics"), self.clock, to_seconds(last, "the period of statistics"), by
        )[0]

    def parts(self, backend: str | None = None) -> Parts:
        """The parts of a backend, completed by those of the store beside it."""
        return self._stores.parts(self.open_backend(backend).backend)

    def count_with(self, collector: Collector) -> None:
        """Add a collector that counts what the backends do."""
        self._backends.count_with(collector)

    def signals(self) -> list[QueueSignals]:
        """Depth, age and speed of each queue, for autoscaling."""
        return read_signals(self.parts(), self.clock)

    def resolve_queue(self, queue: Queue) -> str:
        """The name of a queue, from its name or an alias in any case, its class, the path of its class, or an instance.

        Raises UnknownQueue, with the nearest name, if the app does not know the queue.
        """
        return self.queues.known(queue)

    def worker(
        self,
        *queues: Queue,
        burst: bool = False,
        max: int | None = None,
        weights: dict[str, float] | None = None,
        runner: "RunnerKind" = "inline",
        concurrency: int | None = None,
        lanes: "Sequence[str | Lane]" = (),
        location: str | None = None,
    ) -> "Worker":
        """A worker for these queues, or for those of the settings; or for `lanes`, given by name or as values.

        The runner `inline`, the default, runs jobs in the thread that calls `run`, which suits scripts and tests.
        The other runners use child processes, which import the app from its `location`, such as "shop.jobs:app",
        or from the setting `app`. The worker stops after `max` jobs.
        """
        if lanes and (queues or weights or concurrency is not None or runner != "inline"):
            raise SettingsError("lanes have their own queues, weights, runner and concurrency: give lanes or these")
        served = lanes or [self._runtime.lane(queues, weights or {}, runner, concurrency)]
        return self._runtime.worker(served, location, burst=burst, max_jobs=max)

    def suspects_worker(self, lane: "Lane", location: str | None = None) -> "Worker":
        """A worker that runs the suspects of a lane, one at a time, until none is left; other workers start it."""
        return self._runtime.suspects_worker(lane, location)

    def manager(self, seconds: float = 300.0) -> "Manager":
        """For your own loop that claims, runs and settles jobs; a claim lasts `seconds` unless renewed."""
        return self._runtime.manager(seconds)

    def clean(self) -> int:
        """Delete what is past its retention, in small chunks, as workers do; return how many rows."""
        return sum(self.clean_by_kind().values())

    def clean_by_kind(self) -> dict[str, int]:
        """As `clean`; return how many rows of each kind."""
        return self._runtime.clean()

    def command(self, name: str, target: Callable[..., Any], *, arguments: Sequence[Argument] | None = None) -> None:
        """Let `command` jobs run a click command, or a function that takes a list of texts, under this name."""
        self._builtins.commands.add(name, target, arguments)

    def on(self, event: str) -> Callable[[S], S]:
        """Call a function with the data of each `event` job of this name: `@app.on("order.paid")`."""

        def subscribe(subscriber: S) -> S:
            self._builtins.subscribers.add(event, subscriber)
            return subscriber

        return subscribe

    def middleware(self, middleware: M) -> M:
        """Wrap every handler in a function: `@app.middleware def timed(ctx, proceed): … return proceed()`."""
        self.registry.use(middleware)
        return middleware

    def provide(self, type: Any, factory: Callable[..., Any]) -> None:
        """Provide values of a type to handlers: `app.provide(Session, sessionmaker(engine))`.

        A handler takes one by `session: Session = PROVIDED`; the factory makes it for each job. A generator function
        yields it and closes it; a context manager is entered and left. The last factory of a type counts.
        """
        self.registry.providers.add(type, factory)

    def trace_with(self, tracer: Tracer) -> bool:
        """Let this tracer see enqueues and attempts, and carry its trace in messages; False if an equal one does."""
        if tracer in self._tracers:
            return False
        self._tracers.append(tracer)
        self.registry.observe(tracer)
        return True

    def configure(self, **settings: Any) -> None:
        """Change `url`, `backends`, `store`, `keys`, `outboxes` or `environment` after the app was made.

        What is open is closed, and opened again with the new settings when it is used.
        """
        configure(self, self._backends, settings)

    def listen(self, listener: Listener) -> None:
        """Call this function with every event."""
        self.listeners.add(listener)

    def notify(self, name: str, notification: Notification) -> None:
        """Add a notification about jobs that end, as the setting `notifications` does, under a name."""
        from tenure.app.notifications import subscription

        if not self.notifications.names:
            self.listeners.add(self.notifications)
        self.notifications.add(subscription(name, notification, self.settings, self._enqueue_notice))

    def discover(self, *modules: str) -> None:
        """Import modules, and all modules of packages, so that their handlers are registered."""
        import_all(modules)

    def follow(self, current: Callable[[], Placement | None]) -> Callable[[], None]:
        """For frameworks: before each use of a backend, work where `current` says; None: there has been no change.

        Call what is returned before you read the settings of the app.
        """
        return follow(self, self._backends, current)

    def join(self, transaction: CurrentTransaction) -> None:
        """For frameworks: let enqueues without a connection join the transaction that the calling thread has open."""
        self._producer.transaction = transaction

    def migrate(self) -> list[str]:
        """Create or update the tables of the app's database; return the names of the steps that were taken.

        The first use of a database does the same. A program that enqueues in its own transaction calls this first.
        """
        schema = self.backend.schema
        if schema is None:
            return []
        schema.migrate()
        return list(schema.steps_taken)

    @property
    def backend(self) -> Backend:
        """The backend of the app's URL, opened on first use."""
        return self.open_backend().backend

    def open_backend(self, backend: str | None = None) -> OpenBackend:
        """The opened backend of this name or URL, and its wire."""
        return self._backends.get(backend)

    @cached_property
    def aio(self) -> "Async":
        """The methods for async callers: `await app.aio.enqueue(job)`, `await app.aio.result(id)`."""
        from tenure.aio import Async  # asyncio is a third of the time of an import of Tenure

        return Async(self, self._client.on, self._producer)

    def close(self) -> None:
        """Close what was opened; the app opens it again when it is used again."""
        if "notifications" in vars(self):
            self.notifications.close()
        self.waiters.close()
        if "aio" in vars(self):
            self.aio.close()
        self._backends.close()

    def override(
        self, url: str | None = None, *, clock: Clock | None = None, eager: bool = False,
        backends: Mapping[str, str] | None = None, store: str | None = None,
    ) -> AbstractContextManager[Self]:  # fmt: skip
        """For tests: let this app work with another URL and clock inside a `with` block, and undo it afterwards.

        It holds for the whole process. Named backends become the URL too, unless `backends` names them. With `eager`,
        `enqueue` runs the job. With a clock alone, the URLs stay and are opened apart.
        """
        return overridden(self, self._backends, Override(url, clock, eager, backends or {}, store))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def forget(self, idempotency_key: str) -> bool:
        """Forget an idempotency key, so that a job with this key runs again; return whether the key was known."""
        return self.guards.forget(idempotency_key)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise given_job.missing_app_name(name)

    # What follows is imported at its first use: a process that only enqueues starts in 0.8 of the time.

    @property
    def jobs(self) -> "AppJobs":
        """Finds, shows, counts, awaits and changes jobs."""
        from tenure.app.jobs import AppJobs

        return AppJobs(self._client, self.queues, self._current_clock)

    @property
    def outboxes(self) -> "Outboxes":
        """The outboxes of the setting `outboxes`; `app.outboxes.move()` empties them once, for tests and scripts."""
        from tenure.app.outbox.outboxes import Outboxes

        return Outboxes(self.settings.outboxes, self._backends, self._worker_listeners)

    @property
    def schedules(self) -> "Schedules":
        """The schedules of the app."""
        return self._schedules

    @cached_property
    def _schedules(self) -> "Schedules":
        from tenure.app.cron import schedules_of

        return schedules_of(self)

    @property
    def cron(self) -> "Cron":
        """Runs the schedules, and shows what they did."""
        from tenure.app.cron import Cron

        return Cron(self.schedules, self.settings.environment, self.listeners, self.parts, self._publisher)

    @cached_property
    def notifications(self) -> "Notifier":
        """Sends the notices of `notify` and of the setting `notifications`."""
        from tenure.app.notifications import notifier_for

        return notifier_for(self.parts, self.guards, self._current_clock, self.settings, self._worker_listeners)

    @cached_property
    def _runtime(self) -> "Runtime":
        from tenure.app.runtime import Runtime

        return Runtime(self, self._backends, self._stores, self._sealer, self._worker_listeners)

    def _await_end(self, id: str, seconds: float | None, backend: str | None) -> Awaitable[JobInfo]:
        return self.aio.wait_for_end(id, seconds, backend)

    async def _aenqueue(self, job: Job, *, connection: Any = None, wake: bool = False) -> JobHandle[Any]:
        return await self.aio.enqueue(job, connection=connection, wake=wake)

    def _breaker(self, name: str, context: Context) -> BreakerScope:
        return self.guards.breaker(name).within(context)

    def _enqueue_notice(self, handler: str, notice: "RenderedNotice") -> None:
        self.enqueue(self.define(handler).meta(notice=notice.members()).build())

    def _store(self) -> Store:
        return self._stores.guards(self.backend)

    def _breaker_name(self) -> str | None:
        return backend_name(self.backend, self._store(), self.settings.url)

    def _publisher(self, ledger: Ledger) -> "TickPublisher":
        return self._runtime.publisher(ledger)

    def _run_now(self, lease: Lease, opened: OpenBackend) -> Verdict:
        return self._runtime.run_now(lease, opened)
