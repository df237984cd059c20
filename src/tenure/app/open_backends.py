"""OpenBackends: the backends of an app, each opened once, with the wire that seals and opens its messages.

They belong to a place. `app.override` exchanges the place, so every object of the app that opens a backend, opens the
store or reads the clock works in the other place at once.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from msgspec import structs

from tenure.app.tracing import Tracer, trace_of
from tenure.backends.contract import Backend
from tenure.backends.messages import Lease, Message, Verdict
from tenure.backends.metered import BackendMeter, MeteredBackend, NewMeter
from tenure.backends.parts import key_file_of
from tenure.backends.sync import SyncBackend
from tenure.backends.url import open_backend, sqlite_file
from tenure.clock import Clock, to_microseconds
from tenure.definition.handler import Handler, Registry
from tenure.definition.job import Job, new_id, new_ids, sent_options
from tenure.definition.moment import to_instant
from tenure.definition.queues import Queues
from tenure.errors import InvalidJob, SettingsError, TenureError, UnknownBackend
from tenure.guards.store import MemoryStore
from tenure.metrics.collector import Collector
from tenure.settings import Settings
from tenure.suggestions import nearest
from tenure.wire.envelope import Callbacks, Envelope, Follower, Template, Wire, template_of
from tenure.wire.signing import Key, Ring, check_key_file, load_keys, load_or_create_key, new_key, parse_key

if TYPE_CHECKING:
    from tenure.worker.worker import Worker

logger = logging.getLogger(__name__)

SAVED_KEYS = "tenure.keys"  # in the current folder, as tenure.toml; `tenure key new --save` writes it
_DEVELOPMENT_SECRET = b"a secret that is none: for development"

_IN_PROCESS = ("memory", "sync")  # schemes of backends that nothing outlives
# Schemes of servers: without keys in the settings, the key of their messages is found without a connection to them.
_SERVERS = (
    "redis", "rediss", "unix", "postgresql", "postgres", "mysql", "mariadb", "beanstalk", "servicebus",
)  # fmt: skip


class MessageDestination(Protocol):
    """What a message is sealed for."""

    @property
    def wire(self) -> Wire: ...

    @property
    def in_process(self) -> bool:
        """Whether its messages never leave this process."""
        ...


@dataclass(frozen=True, slots=True)
class OpenBackend:
    """A backend and the wire that seals and opens its messages."""

    backend: Backend
    wire: Wire

    @property
    def in_process(self) -> bool:
        return self.backend.in_process


@dataclass(frozen=True, slots=True)
class ServerDestination:
    """A server that is not connected to: it may be down while messages for it are sealed."""

    wire: Wire
    in_process: bool = False


@dataclass(slots=True)
class Place:
    """Where an app works: its settings and its clock, and what it has opened and started there.

    `store` is the store beside a broker. With `redirects`, every backend that the settings of this place do not name is
    the backend of its URL: an override must not reach a real one, also if the user names it.
    """

    settings: Settings
    clock: Clock
    is_override: bool = False
    redirects: bool = False
    opened: dict[str, OpenBackend] = field(default_factory=dict)
    server: ServerDestination | None = None
    store: Backend | None = None
    workers: "WeakSet[Worker]" = field(default_factory=WeakSet)
    memory: MemoryStore = field(init=False)

    def __post_init__(self) -> None:
        self.memory = MemoryStore(self.clock)

    def url(self, backend: str | None) -> str:
        """The URL of a name from the settings, or the given URL."""
        if backend is None:
            return self.settings.url
        url = self.settings.backends.get(backend, backend)
        if self.redirects and urlsplit(url).scheme not in _IN_PROCESS and url not in self.settings.backends.values():
            return self.settings.url
        return url

    def close(self) -> None:
        while self.opened:
            self.opened.popitem()[1].backend.close()
        store, self.store = self.store, None
        if store is not None:
            store.close()


class PlaceClock:
    """The clock of the place where the app works now, for objects that live as long as the app."""

    def __init__(self, backends: "OpenBackends") -> None:
        self._backends = backends

    def now(self) -> int:
        return self._backends.place.clock.now()

    def monotonic(self) -> float:
        return self._backends.place.clock.monotonic()


class OpenBackends:
    """Opens each backend on first use; `run_now` runs a job for the sync backend."""

    def __init__(
        self, place: Place, run_now: Callable[[Lease, OpenBackend], Verdict], meters: Sequence[NewMeter]
    ) -> None:
        self.place = place
        self._meters = list(meters)
        self.before_use: Callable[[], None] | None = None  # see `follow` in override.py
        self._run_now = run_now
        self._opening = threading.Lock()

    def url(self, backend: str | None) -> str:
        """The URL of a name from the settings, or the given URL."""
        if self.before_use is not None:
            self.before_use()
        return self.place.url(backend)

    def get(self, backend: str | None = None) -> OpenBackend:
        if self.before_use is not None:
            self.before_use()
        place = self.place
        url = place.url(backend)
        opened = place.opened.get(url)
        if opened is not None:
            return opened
        with self._opening:
            if url not in place.opened:
                place.opened[url] = self._opened(url, place)
            return place.opened[url]

    def destination(self, backend: str | None = None) -> MessageDestination:
        """What messages for this backend are sealed for; a server is not connected to."""
        place = self.place
        url = place.url(backend)
        if url in place.opened or urlsplit(url).scheme not in _SERVERS:
            return self.get(backend)
        with self._opening:
            if place.server is None:
                place.server = ServerDestination(_wire(_server_ring(place.settings), place.settings))
            return place.server

    def count_with(self, collector: Collector) -> None:
        """Count what the backends do with this collector too, from now on."""
        self.measure_with(partial(BackendMeter, collector=collector))

    def measure_with(self, new_meter: NewMeter) -> None:
        """Measure what the backends do with a meter of this kind too, from now on."""
        self._meters.append(new_meter)
        with self._opening:
            for url, opened in self.place.opened.items():
                metered = MeteredBackend(opened.backend, new_meter(url))
                self.place.opened[url] = OpenBackend(metered, opened.wire)

    def close(self) -> None:
        if not self.place.is_override:  # its `with` block closes it, and a test may look at its jobs until then
            self.place.close()

    def _opened(self, url: str, place: Place) -> OpenBackend:
        parts, settings = urlsplit(url), place.settings
        if not parts.scheme and (guess := nearest(url, settings.backends)):
            raise UnknownBackend(f"no backend {url!r} is in the setting backends; did you mean {guess!r}?")
        if parts.scheme == "sqlite" and not settings.keys:
            check_key_file(key_file_of(sqlite_file(parts)))  # before the database is created
        backend = open_backend(url, place.clock)
        try:
            ring = _ring(backend, settings)
            wire = _wire(ring, settings)
        except TenureError:
            backend.close()
            raise
        backend.use_keys(ring)
        metered = backend
        for new_meter in self._meters:
            metered = MeteredBackend(metered, new_meter(url))
        opened = OpenBackend(metered, wire)
        if isinstance(backend, SyncBackend):
            backend.runs_with(lambda lease: self._run_now(lease, opened))
        return opened


def _wire(ring: Ring, settings: Settings) -> Wire:
    return Wire(ring, settings.max_bytes, settings.audience)


def _ring(backend: Backend, settings: Settings) -> Ring:
    if settings.keys or (backend.file is None and not backend.in_process):
        return _server_ring(settings)
    key = new_key() if backend.file is None else _key_beside(backend, backend.file.key_path)
    return Ring([key], verify=settings.verify, scopes=settings.scopes)


def _server_ring(settings: Settings) -> Ring:
    """The keys of messages that other hosts may store and read."""
    if settings.keys:
        keys = [parse_key(text) for text in settings.keys]
    elif keys := load_keys(Path(SAVED_KEYS)):
        pass
    elif settings.environment == "development":
        logger.warning("no key is set: messages are signed with a publicly known key")
        keys = [_development_key()]
    else:
        raise SettingsError(
            "messages on a shared backend must be signed, and no key is set; run `tenure key new --save` in "
            f"{str(Path.cwd())!r}, where this process runs: it writes a key into {SAVED_KEYS}; processes elsewhere "
            "need a copy of this file, or the same key in TENURE_KEYS or TENURE_KEYS_FILE"
        )
    return Ring(keys, verify=settings.verify, scopes=settings.scopes)


def _development_key() -> Key:
    return Key("development", _DEVELOPMENT_SECRET)


def derived_secret(opened: OpenBackend, purpose: str) -> bytes | None:
    """A secret that the holders of the app's first key share; None if that key is publicly known."""
    secret = opened.wire.ring.derive(purpose)
    return None if secret == _development_key().derive(purpose) else secret


def _key_beside(backend: Backend, path: Path) -> Key:
    """The key of a database in a file. Without a key nothing is enqueued, so jobs without a key file have lost theirs.

    The file is looked for again at the end: another process may have created it, and enqueued jobs, meanwhile.
    """
    is_lost = not path.exists() and _has_jobs(backend) and not path.exists()
    key = load_or_create_key(path)
    if is_lost:
        logger.warning(
            "the key file %r is missing, but its database has jobs: Tenure now signs with the new key %r, and workers "
            "do not run messages that were signed with the lost key; put its file back if you have a copy",
            str(path),
            key.kid,
        )
    return key


def _has_jobs(backend: Backend) -> bool:
    counts = {} if backend.queues is None else backend.queues.counts()
    return any(any(states.values()) for states in counts.values())


@dataclass(slots=True)
class _Form:
    """The envelope of a job, for jobs of the same handler with the same options."""

    options: tuple[Any, ...]
    envelope: Envelope
    pack: Callable[[Any], bytes]
    template: Template | None = None  # made for the second job


_MAX_DEPTH = 8  # levels of callbacks; a longer sequence of jobs is a chain


@dataclass(frozen=True, slots=True)
class Sealer:
    """Turns a job, and the jobs that follow it, into a message."""

    registry: Registry
    queues: Queues
    clock: Clock
    tracers: Sequence[Tracer] = ()
    timezone: str = "UTC"

    def message(self, job: Job, opened: MessageDestination) -> Message:
        identifier, now = job.id or new_id(), self.clock.now()
        envelope = self._envelope(job, opened, identifier, now, depth=0)
        return _message(job, envelope, identifier, opened.wire.seal_envelope(envelope))

    def messages(self, jobs: Sequence[Job], opened: MessageDestination) -> list[Message]:
        """The messages of many jobs; 3 instead of 6 µs for a job with the handler and options of an earlier one."""
        now, wire = self.clock.now(), opened.wire
        forms: dict[str, _Form] = {}
        messages = []
        for job, new in zip(jobs, new_ids(len(jobs)), strict=True):
            identifier, options = job.id or new, sent_options(job)
            form = forms.get(job.handler)
            if form is None or form.options != options:
                envelope = self._envelope(job, opened, identifier, now, depth=0)
                body = wire.seal_envelope(envelope)
                # Equal meta or followers may still differ in JSON, as 1 and True do.
                options = () if job.meta or job.has_followers else options
                form = forms[job.handler] = _Form(options, envelope, self.registry.get(job.handler).shape.pack)
            else:
                form.template = form.template or template_of(form.envelope)
                body = wire.seal_template(form.template, form.pack(job.payload), identifier)
            messages.append(_message(job, form.envelope, identifier, body))
        return messages

    def _envelope(self, job: Job, opened: MessageDestination, identifier: str, now: int, depth: int) -> Envelope:
        if (queue := self.queues.resolve(job.queue)) != job.queue:
            job = job.replace(queue=queue)
        if type(job.at) is str or type(job.expires_at) is str:
            job = self._with_instants(job, now)
        handler = self.registry.resolve(job.handler, job.queue)
        check_may_leave_process(handler, opened)
        callbacks = self._callbacks(job, opened, now, depth + 1) if job.has_followers else None
        packed = handler.pack_follower(job.payload) if depth else handler.shape.pack(job.payload)
        envelope = opened.wire.envelope(job, packed, identifier, now, handler.version, callbacks)
        trace = trace_of(self.tracers) if self.tracers else None
        return structs.replace(envelope, trace=trace) if trace else envelope

    def _with_instants(self, job: Job, now: int) -> Job:
        """The job with the instants that its phrases mean now, in the app's time zone."""
        at = job.at and to_instant(job.at, "at", now, self.timezone)
        expires_at = job.expires_at and to_instant(job.expires_at, "expires_at", now, self.timezone)
        return structs.replace(job, at=at, expires_at=expires_at)

    def _callbacks(self, job: Job, opened: MessageDestination, now: int, depth: int) -> Callbacks:
        if depth > _MAX_DEPTH:
            raise InvalidJob(f"callbacks are nested deeper than {_MAX_DEPTH} jobs; use `chain` for a sequence of jobs")

        def made(kind: str) -> tuple[Follower, ...]:
            return tuple(self._follower(each, kind, opened, now, depth) for each in getattr(job, kind))

        return Callbacks(made("then"), made("on_failure"), made("finally_"), made("chain"))

    def follower(self, job: Job, opened: MessageDestination) -> Follower:
        """A follower that is not part of the message it follows, such as `on_dead`."""
        return self._follower(job, "on_failure", opened, self.clock.now(), depth=1)

    def _follower(self, job: Job, kind: str, opened: MessageDestination, now: int, depth: int) -> Follower:
        if job.id is not None:
            raise InvalidJob(
                f"job {job.id!r} follows another job and must not have an id; it gets one when it is enqueued"
            )
        message = self._envelope(job.replace(delay=0.0), opened, "", now, depth)
        handler = self.registry.get(job.handler)
        wanted = handler.parent.unfilled(job.payload) if handler.parent.names() else handler.parent
        unknown = {"then": wanted.error, "chain": wanted.error, "on_failure": wanted.result}.get(kind)
        if unknown:
            raise InvalidJob(
                f"handler {job.handler!r} takes {unknown!r} from its parent, and a job in {kind} cannot have it: "
                "then and chain give the result, on_failure the error, and finally_ both; give the argument"
            )
        return Follower(message, job.delay, wanted.result, wanted.error)


def _message(job: Job, envelope: Envelope, identifier: str, body: bytes) -> Message:
    return Message(
        id=identifier,
        queue=envelope.queue,
        body=body,
        handler=job.handler,
        name=job.name,
        priority=job.priority,
        delay=job.delay,
        due=to_microseconds(envelope.schedule) if job.at is not None and envelope.schedule else 0,
        unique=job.unique,
        tags=job.tags,
    )


def check_may_leave_process(handler: Handler, destination: Backend | MessageDestination) -> None:
    if handler.in_process and not destination.in_process:
        raise InvalidJob(
            f"a {handler.key!r} job cannot leave this process, and this backend sends it to others; "
            "make the callable a function with @app.job, or enqueue it on memory:// or sync://"
        )
