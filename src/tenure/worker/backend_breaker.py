"""A circuit breaker around the backend: after failures in a row, the lanes of a worker stop asking it for a while.

While it is closed, failures in a row are counted. While it is open, no lane leases. Then one lane, the probe, asks for
all of them. The pause begins short and doubles up to the cooldown: a restart takes seconds, a long outage needs few
probes. Failures of handlers do not count here.

Where guards live in another store than the jobs, all workers share the state of the breaker through that store.
"""

import logging
import random
import threading
import time

from tenure.clock import MICROSECOND
from tenure.definition.job import new_id
from tenure.errors import BackendError
from tenure.guards.breaker import Breaker
from tenure.guards.guard import Ending, Refusal, settle_guards, take_guard
from tenure.guards.states import Circuit, Holder, unpack
from tenure.guards.store import Store
from tenure.worker.roles import GrowingDelay

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
SHARED_POLL_SECONDS = 1.0  # how often a worker checks whether the probe of another worker was answered
_POLL_SECONDS = 0.25
_PROBE_TIMEOUT = 30.0  # then another lane may probe


class BackendBreaker:
    """Call `pause` before a call of the backend, then `failed` or `succeeded`; skip both while `failures` is 0."""

    def __init__(self, threshold: int = 5, cooldown: float = 60.0, shared: "SharedBreaker | None" = None) -> None:
        self._threshold = threshold
        self._shared = shared
        self._lock = threading.Lock()
        self._delay = GrowingDelay(min(FIRST_PAUSE_SECONDS, cooldown), cooldown)
        self.failures = 0
        self._open_until = 0.0
        self._probe: object | None = None
        self._probe_until = 0.0

    def pause(self, lane: object) -> float:
        """Seconds until this lane may ask the breaker again; 0 when it may call the backend now."""
        if not self.failures:
            return 0.0
        with self._lock:
            now = time.monotonic()
            if self._open_until > now:
                return self._open_until - now
            if self._probe not in (None, lane) and self._probe_until > now:
                return _POLL_SECONDS
            pause = self._shared.enter() if self._shared else None
            if pause:
                self._open_until = now + pause
                return pause
            if pause is not None or self.failures >= self._threshold:
                self._probe, self._probe_until = lane, now + _PROBE_TIMEOUT
            return 0.0

    def failed(self) -> float | None:
        """A call of the backend failed; returns the seconds without calls that follow, None while it stays closed."""
        with self._lock:
            self.failures += 1
            pause = self._delay.next() if self.failures >= self._threshold else 0.0
            wait = pause
            if self._shared and (shared_pause := self._shared.report(succeeded=False)) is not None:
                pause, wait = shared_pause, min(shared_pause, SHARED_POLL_SECONDS)
            self._open_until, self._probe = time.monotonic() + wait, None
            return pause or None

    def succeeded(self) -> None:
        """The backend answered: every lane may call it again."""
        if not self.failures:
            return
        with self._lock:
            self.failures, self._open_until, self._probe = 0, 0.0, None
            self._delay.reset()
            if self._shared:
                self._shared.report(succeeded=True)


class SharedBreaker:
    """The state of the breaker that all workers share, in a store that is not the backend.

    Only a worker whose call failed reads it: a worker that alone is cut off does not stop the others.
    Both methods return None when the store does not answer; each worker then relies on its own count.
    """

    def __init__(self, store: Store, guard: Breaker, seconds: float) -> None:
        """A probe that takes longer than `seconds` is replaced by another."""
        self._store = store
        self._guard = guard
        self._holder = Holder(new_id(), 1, seconds)

    def enter(self) -> float | None:
        """Seconds until this worker may ask again; 0 when it may call the backend, as the probe if the circuit is open.

        Most checks fail, so read first; the write decides again atomically.
        """
        try:
            now, states = self._store.read([self._guard.key])
            taken = self._guard.take(unpack(states.get(self._guard.key)), self._holder, now)
            if not isinstance(taken, Refusal):
                taken = self._store.change([take_guard(self._guard, self._holder)])[0]
        except BackendError as error:
            _log_unavailable(error)
            return None
        if not isinstance(taken, Refusal):
            return 0.0
        spread = 0.5 + random.random()  # noqa: S311 - only spreads the workers
        return spread * min(SHARED_POLL_SECONDS, max(0.02, (taken.until - now) / MICROSECOND))

    def report(self, *, succeeded: bool) -> float | None:
        """Store the result of a call; returns the seconds without calls that follow, 0 while the circuit is closed."""
        try:
            self._store.change([settle_guards([self._guard], self._holder, Ending(over=True, succeeded=succeeded))])
            now, states = self._store.read([self._guard.key])
        except BackendError as error:
            _log_unavailable(error)
            return None
        circuit = unpack(states.get(self._guard.key))
        return max(0.0, (circuit.until - now) / MICROSECOND) if isinstance(circuit, Circuit) else 0.0


def _log_unavailable(error: BackendError) -> None:
    logger.warning("the shared breaker around the backend cannot be read: %s", error)
