"""Guards from outside: look at them, reset them, and use them without a job; `app.guards`."""

from collections.abc import Callable
from typing import NamedTuple

from tenure.app.circuits import Switch
from tenure.definition.identity import new_id
from tenure.errors import RateLimited, SettingsError
from tenure.guards.changes import forgetting, taking
from tenure.guards.guard import Refusal
from tenure.guards.keys import claim_key, lock_key, pause_key, places_key, rate_key
from tenure.guards.pause import paused, pausing
from tenure.guards.rate import AtRate, parse
from tenure.guards.states import Holder, Paused, unpack
from tenure.guards.store import Store
from tenure.worker.rules import Rules


class Usage(NamedTuple):
    """How many could start at once, and how many of those have been used; `again` is seconds until the next."""

    used: int
    burst: int
    again: float


class Limiter:
    """A rate under a name: that of a queue, of a handler or key, or one of your own."""

    def __init__(self, store: Callable[[], Store], guard: AtRate) -> None:
        self._store = store
        self._guard = guard

    def allow(self) -> bool:
        """Spend a token if there is one."""
        return self._spend() is None

    def throttle(self) -> None:
        """Spend a token, or raise RateLimited with the seconds until the next."""
        if (refusal := self._spend()) is not None:
            again = self.usage().again
            raise RateLimited(f"{refusal.key!r} is limited to {self._guard.rate}; try again in {again:.2g} s", again)

    def usage(self) -> Usage:
        now, states = self._store().look([self._guard.key])
        state = unpack(states.get(self._guard.key))
        free = self._guard.tokens(state, now)
        again = max(0, self._guard.bucket(state, now).next_at() - now) / 1_000_000
        return Usage(self._guard.rate.burst - free, self._guard.rate.burst, again)

    def reset(self) -> None:
        """Fill the bucket."""
        self._store().change([forgetting(self._guard.key)])

    def _spend(self) -> Refusal | None:
        refusal: Refusal | None = self._store().change([taking([self._guard], Holder(new_id(), 1, 0.0))])[0]
        return refusal


class Guards:
    """What `app.guards` is."""

    def __init__(
        self, store: Callable[[], Store], rules: Rules, seconds: float, place: Callable[[], str | None]
    ) -> None:
        """`seconds` is how long what is held is kept unless renewed, `place` the backend where the store is another."""
        self._store = store
        self._place = place
        self._seconds = seconds
        self.rules = rules

    def forget(self, idempotency_key: str) -> bool:
        """Let a job with this key run again; whether the key was known."""
        return self._drop(claim_key(idempotency_key))

    def unlock(self, name: str) -> bool:
        """Free the single-instance lock of this name, whoever holds it."""
        return self._drop(lock_key(name))

    def free(self, handler: str, key: str | None = None) -> bool:
        """Free all places that `at_most` gives out for a handler, or for a key."""
        return self._drop(places_key(handler, key))

    def queue(self, name: str) -> Limiter:
        """The limiter of a queue, as the setting `rates` says."""
        guard = self.rules.queue_rate(name)
        if guard is None:
            raise SettingsError(f"queue {name!r} has no rate; set one with rates.{name}")
        return Limiter(self._store, guard)

    def rate(self, rate: str | int, *, handler: str | None = None, key: str | None = None) -> Limiter:
        """The limiter that jobs of this handler or key share, or one of your own under a key."""
        return Limiter(self._store, AtRate(rate_key(handler or "", key), parse(rate)))

    def breaker(self, name: str) -> Switch:
        """The breaker of this name; jobs use the same with the option `breaker`, and with `ctx.breaker`."""
        return Switch(self._store, self.rules.breaker(name), name, self._seconds)

    def around_backend(self) -> Switch | None:
        """The breaker that all workers share around the backend; None where guards live there, and each has its own."""
        place = self._place()
        if place is None:
            return None
        return Switch(self._store, self.rules.backend_breaker(place), place, self._seconds)

    def pause(self, queue: str, reason: str | None = None) -> bool:
        """Have no worker lease from a queue, from about a second on; False when it was paused before."""
        return bool(self._store().change([pausing(queue, reason)])[0])

    def resume(self, queue: str) -> bool:
        """Have workers lease from a queue again; whether it was paused."""
        return self._drop(pause_key(queue))

    def paused(self, *queues: str) -> dict[str, Paused]:
        """Those of these queues that are paused, since when and why."""
        return paused(self._store(), queues)

    def _drop(self, key: str) -> bool:
        return bool(self._store().change([forgetting(key)])[0])
