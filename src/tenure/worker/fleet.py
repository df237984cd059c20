"""Fleet: a breaker around the backend that all workers share, kept in a store which is not that backend.

Only a worker that was not answered looks at it: one that is cut off does not stop those that are not.
"""

import logging
import random

from tenure.clock import MICROSECOND
from tenure.definition.identity import new_id
from tenure.errors import BackendError
from tenure.guards.breaker import Breaker
from tenure.guards.changes import entering, settling
from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Circuit, Holder, unpack
from tenure.guards.store import Store

logger = logging.getLogger(__name__)

_UNKNOWN = "the fleet's breaker around the backend cannot be asked: %s"
LOOK = 1.0  # how often a worker looks whether another's probe was answered


class Fleet:
    """Both verbs answer None when the store does not, and each worker then goes by what it has seen itself."""

    def __init__(self, store: Store, guard: Breaker, seconds: float) -> None:
        """`seconds` is how long a probe may take before another may try."""
        self._store = store
        self._guard = guard
        self._holder = Holder(new_id(), 1, seconds)

    def ask(self) -> float | None:
        """Seconds until this worker may look again; 0 when it may ask the backend, as the probe if the circuit is open.

        Most look in vain, so they only look: what is taken is decided once more in the step that takes it.
        """
        try:
            now, states = self._store.look([self._guard.key])
            taken = self._guard.take(unpack(states.get(self._guard.key)), self._holder, now)
            if not isinstance(taken, Refusal):
                taken = self._store.change([entering(self._guard, self._holder)])[0]
        except BackendError as error:
            logger.warning(_UNKNOWN, error)
            return None
        if not isinstance(taken, Refusal):
            return 0.0
        spread = 0.5 + random.random()  # noqa: S311 - only spreads the fleet
        return spread * min(LOOK, max(0.02, (taken.until - now) / MICROSECOND))

    def tell(self, succeeded: bool) -> float | None:
        """How asking went; for how many seconds nobody asks now, 0 while the circuit is closed."""
        try:
            self._store.change([settling([self._guard], self._holder, Ending(over=True, succeeded=succeeded))])
            now, states = self._store.look([self._guard.key])
        except BackendError as error:
            logger.warning(_UNKNOWN, error)
            return None
        circuit = unpack(states.get(self._guard.key))
        return max(0.0, (circuit.until - now) / MICROSECOND) if isinstance(circuit, Circuit) else 0.0
