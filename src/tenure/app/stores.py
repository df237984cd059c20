"""Stores: where the guards of an app are stored, and how unique jobs are put."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from tenure.app.open_backends import OpenBackends
from tenure.backends.contract import Backend, Parts, parts_for
from tenure.backends.messages import Message
from tenure.backends.url import open_backend, without_secrets
from tenure.errors import DuplicateJob, InvalidJob, SettingsError, Unstorable
from tenure.guards.rate_limit import parse_rate
from tenure.guards.store import MemoryStore, Store
from tenure.settings import Settings
from tenure.worker.guard_rules import GuardRules

logger = logging.getLogger(__name__)

Put = Callable[[Sequence[Message]], list[str]]
Holders = Callable[[Sequence[str]], dict[str, str]]
_EMBEDDED = "sqlite:///tenure-guards.db"
_TRIES = 10


class Stores:
    """Finds where the guards of a backend are stored, and the parts that the store beside a broker adds to it."""

    def __init__(self, backends: OpenBackends) -> None:
        self._backends = backends
        self._opening = threading.Lock()

    def beside(self, backend: Backend) -> Backend | None:
        """The store of the setting `store`, or a local file in development; None if the backend is enough."""
        place, settings = self._backends.place, self._backends.place.settings
        if settings.store is not None:
            return self._open(settings.store)
        if backend.guards is not None or backend.in_process:
            return None
        if place.redirects:
            return self._open("memory://")
        if settings.environment == "development":
            logger.warning("this backend stores no guards: they are stored in %s, for this machine only", _EMBEDDED)
            return self._open(_EMBEDDED)
        raise SettingsError(
            "this backend cannot store idempotency keys, locks, rates and breakers; "
            'name a database or Redis that all workers share with the setting store, such as "redis://host" '
            'or "postgresql://host/name"'
        )

    def guards(self, backend: Backend) -> Store:
        """Where the guards of this backend's jobs are stored."""
        store = self.beside(backend)
        return (backend if store is None else store).guards or self._backends.place.memory

    def parts(self, backend: Backend) -> Parts:
        """The parts of this backend, with those of the store beside it; without a store where none is set."""
        try:
            return parts_for(backend, self.beside(backend))
        except SettingsError:
            return parts_for(backend, None)

    def _open(self, url: str) -> Backend:
        place = self._backends.place
        with self._opening:
            if place.store is None:
                place.store = open_backend(place.settings.backends.get(url, url), place.clock)
            if place.store.guards is None:
                raise SettingsError(f"{without_secrets(url)!r} cannot store guards; use a database, Redis or memory://")
            return place.store


def rules_of(settings: Settings) -> GuardRules:
    """The rules for guards from the settings."""
    rates = {}
    for queue, rate in settings.rates.items():
        try:
            rates[queue] = parse_rate(int(rate) if isinstance(rate, str) and rate.isdecimal() else rate)
        except InvalidJob as error:
            raise SettingsError(f"the setting rates.{queue} is wrong: {error}") from error
    return GuardRules(rates=rates, threshold=settings.breaker_threshold, cooldown=settings.breaker_cooldown)


def require_unique(backend: Backend, messages: Sequence[Message]) -> None:
    if any(message.unique is not None for message in messages) and backend.unique is None:
        raise Unstorable("this backend cannot enforce unique jobs; remove the option unique, or use a database")


def put_unique(
    backend: Backend, message: Message, duplicate: Literal["return", "refuse"], put: Put, own_holders: Holders | None
) -> str | None:
    """Store a message with a `unique` text; return None, or the id of the job that already holds the text.

    `own_holders` finds the jobs of the caller's transaction, which no other connection sees.
    """
    require_unique(backend, [message])
    unique = message.unique or ""
    for _ in range(_TRIES):
        if message.id in put([message]):
            return None
        own = None if own_holders is None else own_holders([unique]).get(unique)
        existing = own or _holder(backend, unique)
        if existing == message.id:
            return None  # an earlier call stored it under this id
        if existing is not None:
            return existing_job(message, existing, duplicate)
    return message.id  # a job with this id has ended: an id is stored once


def existing_job(message: Message, existing: str, duplicate: Literal["return", "refuse"]) -> str:
    """The id of the job that holds the `unique` text of this message, unless the user wants an error."""
    if duplicate == "refuse":
        raise DuplicateJob(f"job {existing} with unique {message.unique!r} waits or runs already", existing)
    return existing


def _holder(backend: Backend, unique: str) -> str | None:
    return None if backend.unique is None else backend.unique.holders([unique]).get(unique)


def backend_name(backend: Backend, store: Store, url: str) -> str | None:
    """The name under which a store beside the backend records the backend's own breaker; None where there is none."""
    return None if store is backend.guards or isinstance(store, MemoryStore) else without_secrets(url)
