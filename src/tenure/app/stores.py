"""Stores: where the guards of an app are kept, and jobs that must be the only one of their kind."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from tenure.backends.contract import Backend, Exclusive, InProcess, Message, Parking
from tenure.backends.opening import open_backend, without_secrets
from tenure.clock import Clock
from tenure.errors import BackendError, DuplicateJob, InvalidJob, SettingsError
from tenure.guards.memory import MemoryStore
from tenure.guards.rate import parse
from tenure.guards.store import Store
from tenure.settings import Settings
from tenure.worker.rules import Rules
from tenure.worker.warden import Warden

logger = logging.getLogger(__name__)

Put = Callable[[Sequence[Message]], list[str]]
_EMBEDDED = "sqlite:///tenure-guards.db"
_TRIES = 10


class Stores:
    """The store of a backend: itself where it is one, unless the setting `store` names another."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._memory = MemoryStore(clock)
        self._foreign: Backend | None = None
        self._opening = threading.Lock()

    def of(self, backend: Backend) -> Store:
        if self._settings.store is not None:
            return self._opened(self._settings.store)
        if isinstance(backend, Store):
            return backend
        if isinstance(backend, InProcess):
            return self._memory
        if self._settings.environment == "development":
            logger.warning("this backend keeps no guards: they are kept in %s, for this machine only", _EMBEDDED)
            return self._opened(_EMBEDDED)
        raise SettingsError(
            "this backend cannot keep idempotency keys, locks, rates and breakers; "
            'name a place for them that all workers share with the setting store, such as "redis://host" '
            'or "postgresql://host/name"'
        )

    def close(self) -> None:
        if self._foreign is not None:
            self._foreign.close()
            self._foreign = None

    def _opened(self, url: str) -> Store:
        with self._opening:
            if self._foreign is None:
                self._foreign = open_backend(self._settings.backends.get(url, url), self._clock)
            if not isinstance(self._foreign, Store):
                raise SettingsError(f"{without_secrets(url)!r} cannot keep guards; use a database, Redis or memory://")
            return self._foreign


def rules_of(settings: Settings) -> Rules:
    """What the settings say about guards."""
    rates = {}
    for queue, rate in settings.rates.items():
        try:
            rates[queue] = parse(int(rate) if isinstance(rate, str) and rate.isdecimal() else rate)
        except InvalidJob as error:
            raise SettingsError(f"the setting rates.{queue} is wrong: {error}") from error
    return Rules(rates=rates, threshold=settings.breaker_threshold, cooldown=settings.breaker_cooldown)


def require_exclusive(backend: Backend, messages: Sequence[Message]) -> None:
    if any(message.unique is not None for message in messages) and not isinstance(backend, Exclusive):
        raise BackendError("this backend cannot keep jobs unique; leave the option out, or use a database")


def put_unique(backend: Backend, message: Message, duplicate: Literal["return", "refuse"], put: Put) -> str | None:
    """Store a message that must be the only one; None, or the id of the job that is it already."""
    require_exclusive(backend, [message])
    for _ in range(_TRIES):
        if message.id in put([message]):
            return None
        existing = _holder(backend, message.unique or "")
        if existing == message.id:
            return None  # it was stored before, under this very id
        if existing is not None and duplicate == "refuse":
            raise DuplicateJob(f"job {existing} with unique {message.unique!r} waits or runs already", existing)
        if existing is not None:
            return existing
    return message.id  # the id is known, of a job that has ended: stored once, as ever


def _holder(backend: Backend, unique: str) -> str | None:
    return backend.holders([unique]).get(unique) if isinstance(backend, Exclusive) else None


def place_beside(backend: Backend, store: Store, url: str) -> str | None:
    """The name of a backend under which a store that is another one keeps what it knows of it."""
    one: object = store
    return None if one is backend or isinstance(store, MemoryStore) else without_secrets(url)


def warden_of(backend: Backend, store: Store, rules: Rules, seconds: float, url: str) -> Warden:
    """Who takes the guards of this backend's jobs; they wait parked where both are one."""
    one: object = store
    is_backend = one is backend
    parks = is_backend or not isinstance(backend, Store)
    parking = backend if parks and isinstance(backend, Parking) else None
    place = place_beside(backend, store, url)
    return Warden(store, rules, seconds, is_backend=is_backend, parking=parking, place=place)
