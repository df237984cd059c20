"""Circuits: breakers around single calls, outside jobs and within; `app.guards.breaker(...)` and `ctx.breaker(...)`."""

import asyncio
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Literal

from tenure.definition.context import Context
from tenure.definition.identity import new_id
from tenure.errors import BackendError, Cancel, CircuitOpen, DeadlineExceeded, Postpone
from tenure.guards.breaker import Breaker
from tenure.guards.changes import entering, forgetting, renewing, settling
from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Circuit, Holder, unpack
from tenure.guards.store import ALL, Store

logger = logging.getLogger(__name__)

BreakerState = Literal["closed", "open", "half_open"]
_STORE_IS_DOWN = 2.0


class Switch:
    """A circuit breaker under a name, for calls of what may be down: `with app.guards.breaker("stripe").closed():`."""

    def __init__(self, store: Callable[[], Store], guard: Breaker, name: str, seconds: float) -> None:
        """`seconds` is how long a probe is held unless renewed."""
        self._store = store
        self._guard = guard
        self._name = name
        self._seconds = seconds

    def closed(self) -> "Passing":
        """Around a call of what may be down: raises CircuitOpen instead of trying, and counts what fails."""
        return Passing(self._store, self._guard, self._name, Holder(new_id(), 1, self._seconds))

    def within(self, context: Context) -> "Passing":
        """The same within a job, which waits for the breaker unless its handler minds CircuitOpen itself."""
        holder = Holder(context.id, context.fence, self._seconds)
        return Passing(self._store, self._guard, self._name, holder, context)

    def state(self) -> BreakerState:
        circuit, now = self._circuit()
        if circuit is None or not circuit.until:
            return "closed"
        return "open" if circuit.until > now else "half_open"

    def failures(self) -> int:
        circuit, _ = self._circuit()
        return 0 if circuit is None else circuit.failures

    def reset(self) -> None:
        """Close it, whatever happened."""
        self._store().change([forgetting(self._guard.key, wake=ALL)])

    def _circuit(self) -> tuple[Circuit | None, int]:
        now, states = self._store().look([self._guard.key])
        state = unpack(states.get(self._guard.key))
        return (state if isinstance(state, Circuit) else None), now


class Passing:
    """One passage; whoever is the probe keeps its place for as long as the call takes, and a process that dies not."""

    def __init__(
        self, store: Callable[[], Store], guard: Breaker, name: str, holder: Holder, context: Context | None = None
    ) -> None:
        self._store = store
        self._guard = guard
        self._name = name
        self._holder = holder
        self._context = context
        self._over = threading.Event()

    def __enter__(self) -> None:
        self._keep(self._take())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settle(self._tells(error))

    async def __aenter__(self) -> None:
        # Kept only once it is known here that it was taken: nobody would end it otherwise.
        self._keep(await asyncio.to_thread(self._take))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        await asyncio.to_thread(self._settle, self._tells(error))

    def _take(self) -> bool:
        """Whether this is the probe."""
        try:
            taken: Refusal | bool = self._store().change([entering(self._guard, self._holder)])[0]
        except BackendError as error:
            if self._context is None:
                raise
            raise Postpone(_STORE_IS_DOWN, f"the breaker {self._name!r} cannot be asked: {error}") from error
        if not isinstance(taken, Refusal):
            return taken
        story = f"{self._name!r} has failed too often, and is left alone for a while"
        raise CircuitOpen(story) if self._context is None else CircuitOpen(story, taken.key, taken.until)

    def _keep(self, is_probe: bool) -> None:
        if is_probe:
            threading.Thread(target=self._renew, name=f"tenure-probe-{self._name}", daemon=True).start()

    def _renew(self) -> None:
        while not self._over.wait(self._holder.seconds / 3):
            try:
                self._store().change([renewing([self._guard], self._holder)])
            except BackendError as error:
                logger.warning("the probe of breaker %r could not be renewed: %s", self._name, error)

    def _settle(self, succeeded: bool | None) -> None:
        """What was called has done what it has, whether or not that can be written down."""
        self._over.set()
        try:
            self._store().change([settling([self._guard], self._holder, Ending(over=True, succeeded=succeeded))])
        except BackendError as error:
            logger.warning("breaker %r was not told how a call went: %s", self._name, error)

    def _tells(self, error: BaseException | None) -> bool | None:
        """Whether what was called works; None when that was not the reason for the end."""
        if error is None:
            return True
        if isinstance(error, (Postpone, Cancel, CircuitOpen)):
            return None
        if isinstance(error, asyncio.CancelledError):  # a coroutine whose time is over is cancelled too
            return False if self._context and self._context.time_left == 0 else None
        return False if isinstance(error, (Exception, DeadlineExceeded)) else None
