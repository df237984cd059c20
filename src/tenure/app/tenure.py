"""Tenure: an application's jobs, and everything that is done with them."""

import importlib
import logging
import os
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from tenure import settings as setting
from tenure.app.channels import Channels
from tenure.app.collecting import find_collector, own_collector
from tenure.app.dead_letters import DeadLetterQueue
from tenure.app.decorating import Decorator
from tenure.app.desk import AppDesk
from tenure.app.guarding import Guards
from tenure.app.history import read_signals, summarise, value_of, wait_for_end
from tenure.app.keeping import Cron
from tenure.app.lanes import find_lanes, queues_of
from tenure.app.manager import Manager
from tenure.app.notifying import AppSurroundings, check_jobs, subscription
from tenure.app.producer import Producer
from tenure.app.running import Running
from tenure.app.scheduling import schedules_of
from tenure.app.sealer import Channel, Sealer
from tenure.app.shelves import Shelves
from tenure.app.stores import Stores, place_beside, rules_of
from tenure.app.tracing import find_tracing
from tenure.backends.asking import Fate, Turn
from tenure.backends.contract import Backend, Lease, Message, Verdict
from tenure.backends.ledger import Ledger
from tenure.builtin.event import Subscriber
from tenure.builtin.handlers import Builtins
from tenure.clock import Clock, SystemClock
from tenure.cron.builder import ScheduleBuilder
from tenure.definition.builder import JobBuilder
from tenure.definition.context import Context
from tenure.definition.duration import Duration, to_seconds
from tenure.definition.function import JobFunction
from tenure.definition.handler import HandlerOptions, from_class
from tenure.definition.job import Job
from tenure.definition.middleware import Middleware
from tenure.definition.passage import Passage
from tenure.definition.queues import QueueClass, Queues
from tenure.definition.registry import Registry
from tenure.definition.retry import Backoff, RetryPolicy
from tenure.errors import SettingsError, TenureError
from tenure.events import Listener, Listeners
from tenure.guards.store import Store
from tenure.metrics.collector import NoCollector
from tenure.metrics.counters import WorkerCounters
from tenure.metrics.signals import Signals
from tenure.metrics.summary import By, Summary
from tenure.notifications.notice import Letter
from tenure.notifications.notifier import Notifier
from tenure.permissions import Argument
from tenure.recipients import Notification
from tenure.worker.lane import Lane, RunnerKind
from tenure.worker.terms import Terms
from tenure.worker.worker import Worker

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Subscriber)
M = TypeVar("M", bound=Middleware)


class Tenure:
    """An application's jobs: what they are, where they wait, and who runs them.

    Nothing is opened until it is used, so an app can be created at import time.
    """

    def __init__(
        self, url: str | None = None, *, retry: RetryPolicy | None = None, clock: Clock | None = None, **settings: Any
    ) -> None:
        """`settings` override files and environment; `retry` replaces their backoff; `clock` is for tests.

        Among them `metrics` may be a collector of your own, or None to count nothing.
        """
        own = own_collector(settings)
        arguments = settings if url is None else {**settings, "url": url}
        self.settings = setting.load(arguments, os.environ)
        self.clock = clock or SystemClock()
        self.listeners = Listeners()
        self.metrics = own or find_collector(self.settings.metrics)
        if type(self.metrics) is not NoCollector:
            self.listeners.add(WorkerCounters(self.metrics))
        self._builtins = Builtins(self.settings.command, self.settings.shell, self.settings.event, self.settings.http)
        builtins = self._builtins.handlers(self.settings.max_retries)
        self.registry = Registry(self.settings.allow, builtins, self._breaker)
        self.queues = Queues()
        self._channels = Channels(self.settings, self.clock, self._run_now, self.metrics)
        tracing = find_tracing(self.settings.tracing)
        if tracing:
            self.registry.use(tracing.around)
            self.registry.use(tracing.around_async)
        self._sealer = Sealer(self.registry, self.queues, self.clock, tracing)
        self._producer = Producer(self._channels, self._sealer, self.listeners)
        self.schedules = schedules_of(self)
        self.retry = retry or _backoff(self.settings.backoff)
        self.guards = Guards(self._store, rules_of(self.settings), self.settings.lease, self._place)
        self._stores = Stores(self.settings, self.clock)
        here = self.settings.environment
        self.cron = Cron(self.schedules, here, self.listeners, lambda: self.backend, self._store, self._desk)
        for alias, queue in self.settings.aliases.items():
            self.queues.alias(alias, queue)
        around = AppSurroundings(lambda: self.backend, self.guards)
        self.notifications = Notifier(around, self.clock, self.settings.sensitive, self.listeners.emit)
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
        decorator = Decorator(self.registry, self.enqueue, {"max_retries": self.settings.max_retries, **options})
        return decorator if function is None else decorator(function)

    def register(self, key: str, cls: type, /, **options: Unpack[HandlerOptions]) -> None:
        """Make a class with a `handle` method the handler for a key."""
        handler = from_class(key, cls, options)
        handler.defaults.setdefault("max_retries", self.settings.max_retries)
        self.registry.add(handler)

    def define(self, handler: str, payload: Any = None) -> JobBuilder:
        """Describe a job by its handler's key, in a chain of words."""
        found = self.registry.get(handler)
        if payload is None and found.bind is not None:
            payload = {}  # a function's payload is the object of its arguments, even when there are none
        return JobBuilder(Job(handler=handler, payload=payload, **found.defaults), self.enqueue)

    def schedule(self, job: Job | str, payload: Any = None) -> ScheduleBuilder:
        """Have a job run by the clock: `app.schedule(job).daily_at("02:00")`; a handler's key is defined first."""
        described = self.define(job, payload).build() if isinstance(job, str) else job
        return self.schedules.add(ScheduleBuilder(described, self.enqueue))

    def enqueue(self, job: Job, backend: str | None = None, *, connection: Any = None, wake: bool = False) -> str:
        """Put one job on its queue, here or on another backend (a name from the settings, or a URL).

        With a `connection` to the backend's database the job joins its transaction: committed together, or never.
        """
        return self._producer.enqueue(job, backend, connection, wake=wake)

    def enqueue_many(self, jobs: Iterable[Job], backend: str | None = None) -> list[str]:
        """Put many jobs, a thousand a round trip; each thousand is stored whole or not at all.

        One that has a `unique` and meets its like is left out of what is stored, and of what is returned.
        """
        return self._producer.enqueue_many(jobs, backend)

    def enqueue_each(self, jobs: Iterable[Job], backend: str | None = None) -> list[str | Exception]:
        """Put jobs that have nothing to do with each other; of each its id, or why it was refused."""
        return self._producer.enqueue_each(jobs, backend)

    def cancel(self, id: str, backend: str | None = None) -> Fate:
        """Cancel a job: one that waits has ended, `cancelled`; one that runs is `asked` to stop, and interrupted.

        One that has ended is `too_late`; one that is not known here is `unknown`.
        """
        return self.cancel_many([id], backend)[id]

    def cancel_many(self, ids: Iterable[str], backend: str | None = None) -> dict[str, Fate]:
        """Cancel many jobs, a thousand a round trip; what became of each."""
        return self._producer.cancel(ids, backend)

    def reschedule(
        self, id: str, *, delay: Duration = 0, at: datetime | None = None, backend: str | None = None
    ) -> Turn:
        """Let a job that waits start at another time: `at` a moment, or after a `delay`, at once unless given.

        One that is `running` goes on; one that has ended is `too_late`; one that is not known here is `unknown`.
        """
        return self.reschedule_many([id], delay=delay, at=at, backend=backend)[id]

    def reschedule_many(
        self, ids: Iterable[str], *, delay: Duration = 0, at: datetime | None = None, backend: str | None = None
    ) -> dict[str, Turn]:
        """Let many jobs that wait start at another time, a thousand a round trip; what became of each."""
        return self._producer.reschedule(ids, delay, at, backend)

    def dead_letters(self, backend: str | None = None) -> DeadLetterQueue:
        """The jobs that died, here or on another backend: to find, replay, delete and store them."""
        channel = self.channel(backend)

        def seal(handler: str, payload: Any) -> Message:
            return self._sealer.message(self.define(handler, payload).build(), channel)

        return DeadLetterQueue(channel.backend, seal, self.listeners)

    def result(self, id: str, timeout: Duration = 0, backend: str | None = None) -> Any:
        """What a job returned; waits for its end up to `timeout`, and raises if that was no success."""
        return value_of(wait_for_end(self.shelves(backend), id, to_seconds(timeout, "timeout")))

    def statistics(self, last: Duration = "24h", by: By = "queue") -> list[Summary]:
        """How many jobs were done, how fast and how well, over about this time, by queue or by handler."""
        return summarise(self.shelves().books, self.clock, to_seconds(last, "the time of statistics"), by)[0]

    def shelves(self, backend: str | None = None) -> Shelves:
        """Who keeps what is known of jobs and workers: the backend, or the store beside it."""
        found = self.channel(backend).backend
        try:
            return Shelves(found, self._stores.of(found))
        except SettingsError:
            return Shelves(found, None)

    def signals(self) -> list[Signals]:
        """How deep, how old and how fast each queue is, for whoever decides how many workers there should be."""
        return read_signals(self.shelves(), self.clock)

    def worker(
        self,
        *queues: str | QueueClass,
        burst: bool = False,
        most: int | None = None,
        weights: dict[str, float] | None = None,
        runner: RunnerKind = "inline",
        concurrency: int | None = None,
        lanes: Sequence[str | Lane] = (),
        location: str | None = None,
    ) -> Worker:
        """A worker on these queues, or on those of the settings; or on several `lanes`, by name or as values.

        `inline`, the default here, runs jobs in the thread that calls `run`, as scripts and tests want it.
        The other runners use child processes, which import the app from its `location`, such as "shop.jobs:app",
        else from where the setting `app` says.
        """
        if lanes and (queues or weights or concurrency is not None or runner != "inline"):
            raise SettingsError("lanes have their own queues, weights, runner and concurrency: give either")
        for queue in queues:
            if not isinstance(queue, str):
                self.queues.add(queue)
        if not lanes:
            names = tuple(self.queues.resolve(queue) for queue in queues or queues_of(self.settings))
            shares = {self.queues.resolve(queue): weight for queue, weight in (weights or {}).items()}
            lanes = [Lane(queues=names, weights=shares, runner=runner, concurrency=concurrency or 0)]
        found = find_lanes(lanes, self.settings, self.queues)
        served = tuple(queue for lane in found for queue in lane.queues)
        check_jobs(self.notifications.jobs, self.define)
        terms = Terms(queues=served, lease_seconds=self.settings.lease, burst=burst, most=most)
        return self._running.workshop(self.channel()).worker(
            found, terms, location or self.settings.app, self.cron.companions()
        )

    def manager(self, seconds: float = 300.0) -> Manager:
        """For a loop of your own that claims jobs, runs and settles them; a claim lasts `seconds` unless renewed."""
        return Manager(self._running.workshop(self.channel(), seconds), self.define, seconds)

    def clean(self) -> int:
        """Delete what is past its retention, in small chunks, as workers do by themselves; returns how much."""
        return self._running.workshop(self.channel()).janitor().clean()

    def command(self, name: str, target: Callable[..., Any], *, arguments: Sequence[Argument] | None = None) -> None:
        """Let `command` jobs run this under a name: a click command, or a function that takes a list of texts."""
        self._builtins.commands.add(name, target, arguments)

    def on(self, event: str) -> Callable[[S], S]:
        """Have a function called with the data of each `event` job of this name: `@app.on("order.paid")`."""

        def subscribe(subscriber: S) -> S:
            self._builtins.subscribers.add(event, subscriber)
            return subscriber

        return subscribe

    def middleware(self, middleware: M) -> M:
        """Put a function around every handler: `@app.middleware def timed(ctx, proceed): … return proceed()`."""
        self.registry.use(middleware)
        return middleware

    def listen(self, listener: Listener) -> None:
        """Have every event told to this callable."""
        self.listeners.add(listener)

    def notify(self, name: str, notification: Notification) -> None:
        """Have people or programs told how jobs end, as the setting `notifications` does; the name is for you."""
        if not self.notifications.names:
            self.listeners.add(self.notifications)
        self.notifications.add(subscription(name, notification, self.settings, self._enqueue_notice))

    def discover(self, *modules: str) -> None:
        """Import modules, and every module inside packages, so that their handlers register."""
        for name in modules:
            module = importlib.import_module(name)
            for found in pkgutil.walk_packages(getattr(module, "__path__", []), prefix=f"{name}."):
                importlib.import_module(found.name)

    @property
    def backend(self) -> Backend:
        """The backend of the app's URL, opened on first use."""
        return self.channel().backend

    def channel(self, backend: str | None = None) -> Channel:
        """The opened backend of this name or URL, and its wire."""
        return self._channels.get(backend)

    def close(self) -> None:
        """Close what was opened; the app opens it again when it is used again."""
        self.notifications.close()
        self._channels.close()
        self._stores.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def forget(self, idempotency_key: str) -> bool:
        """Let a job with this idempotency key run again; whether the key was known."""
        return self.guards.forget(idempotency_key)

    @property
    def _running(self) -> Running:
        """As the settings are now: the command line overrides some of them."""
        return Running(
            self.settings, self.clock, self.registry, self.queues, self.listeners, self._stores, self._sealer,
            self.guards.rules, self.retry, self.define,
        )  # fmt: skip

    def _breaker(self, name: str, context: Context) -> Passage:
        return self.guards.breaker(name).within(context)

    def _enqueue_notice(self, handler: str, letter: Letter) -> None:
        self.enqueue(self.define(handler).meta(notice=letter.members()).build())

    def _store(self) -> Store:
        return self._stores.of(self.backend)

    def _place(self) -> str | None:
        return place_beside(self.backend, self._store(), self.settings.url)

    def _desk(self, ledger: Ledger) -> AppDesk:
        channel = self.channel()
        seal = partial(self._sealer.message, channel=channel)
        return AppDesk(channel.backend, ledger, seal, self._run_inline, self._producer.tell, self.listeners)

    def _run_inline(self, job: Job) -> None:
        self.enqueue(job, "sync://")

    def _run_now(self, lease: Lease, channel: Channel) -> Verdict:
        return self._running.run_now(lease, channel)


def _backoff(values: dict[str, Any]) -> Backoff:
    unknown = values.keys() - set(Backoff.__struct_fields__)
    if unknown:
        known = ", ".join(Backoff.__struct_fields__)
        raise SettingsError(f"unknown setting backoff.{min(unknown)}; known ones: {known}")
    try:
        return msgspec.convert(values, Backoff, strict=False)
    except (msgspec.ValidationError, TenureError) as error:
        raise SettingsError(f"the setting backoff is wrong: {error}") from error
