"""Breaker: a circuit breaker that all workers share; after failures in a row no job calls, then one job probes."""

from msgspec import Struct

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import WAKE_ALL, Circuit, Hold, Holder, State, pack
from tenure.guards.store import KeyUpdate

_KEPT_MICROSECONDS = 86_400_000_000  # the state of an open breaker stays so long after a probe may try
_CLOSED = Circuit(0, 0, None)
_MAX_DOUBLINGS = 32  # more than any cooldown allows


class Breaker(Struct, frozen=True, gc=False):
    """Opens for `cooldown` seconds after `threshold` failures in a row; then one probe decides.

    With `first` it opens for `first` seconds, and twice as long after each failed probe, up to the cooldown.
    """

    key: str
    threshold: int = 5
    cooldown: float = 60.0
    first: float | None = None

    def take(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        circuit = _circuit(state)
        if not circuit.until:
            return None
        if circuit.until > now:
            return Refusal(self.key, "circuit_open", circuit.until)
        if circuit.probe is not None and not circuit.probe.yields_to(holder, now):
            return Refusal(self.key, "circuit_open", circuit.probe.until)
        probe = Hold.of(holder, now)
        return _update(Circuit(circuit.failures, circuit.until, probe), now, probe.until)

    def renew(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        circuit = _circuit(state)
        if circuit.probe is None or not circuit.probe.is_of(holder):
            return None  # the job started while the breaker was closed, and continues
        probe = circuit.probe.renewed(holder, now)
        return _update(Circuit(circuit.failures, circuit.until, probe), now, probe.until)

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> KeyUpdate | None:
        circuit = _circuit(state)
        if not circuit.until:
            return self._count(circuit, ending, now)
        if circuit.probe is None or not circuit.probe.is_of(holder):
            return None  # the job started before the breaker opened, so its result says nothing about now
        if ending.succeeded:
            return KeyUpdate(None, wake=WAKE_ALL)
        if ending.succeeded is False:
            return self._open(circuit.failures + 1, now)
        return _update(Circuit(circuit.failures, circuit.until, None), now, 0, wake=1)

    def _count(self, circuit: Circuit, ending: Ending, now: int) -> KeyUpdate | None:
        if ending.succeeded:
            return KeyUpdate(None) if circuit.failures else None
        if ending.succeeded is None:
            return None
        failures = circuit.failures + 1
        return self._open(failures, now) if failures >= self.threshold else _update(Circuit(failures, 0, None), now, 0)

    def _open(self, failures: int, now: int) -> KeyUpdate:
        until = now + round(self._open_seconds(failures) * 1_000_000)
        return _update(Circuit(failures, until, None), now, until)

    def _open_seconds(self, failures: int) -> float:
        if self.first is None:
            return self.cooldown
        return min(self.cooldown, self.first * 2.0 ** min(failures - self.threshold, _MAX_DOUBLINGS))


def _circuit(state: State | None) -> Circuit:
    return state if isinstance(state, Circuit) else _CLOSED


def _update(circuit: Circuit, now: int, wake_at: int, wake: int = 0) -> KeyUpdate:
    return KeyUpdate(pack(circuit), max(now, circuit.until) + _KEPT_MICROSECONDS, wake_at, wake)
