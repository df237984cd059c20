"""Breaker: after so many failures in a row nobody tries for a while, then one does, for all."""

from msgspec import Struct

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Circuit, Hold, Holder, State, pack
from tenure.guards.store import ALL, Step

_KEPT = 86_400_000_000  # µs: an open circuit is not forgotten while it waits for its probe
_CLOSED = Circuit(0, 0, None)
_DOUBLINGS = 32  # more than any cooldown has room for


class Breaker(Struct, frozen=True, gc=False):
    """Opens after `threshold` failures in a row, for `cooldown` seconds; then one probe decides.

    With a `first` it opens for so many seconds, and twice as long after each probe that fails, up to the cooldown.
    """

    key: str
    threshold: int = 5
    cooldown: float = 60.0
    first: float | None = None

    def take(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        circuit = _circuit(state)
        if not circuit.until:
            return None
        if circuit.until > now:
            return Refusal(self.key, "circuit_open", circuit.until)
        if circuit.probe is not None and not circuit.probe.yields_to(holder, now):
            return Refusal(self.key, "circuit_open", circuit.probe.until)
        probe = Hold(holder.id, holder.fence, holder.until(now), now)
        return _step(Circuit(circuit.failures, circuit.until, probe), now, probe.until)

    def renew(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        circuit = _circuit(state)
        if circuit.probe is None or not circuit.probe.is_of(holder):
            return None  # whoever started while it was closed goes on
        probe = circuit.probe.renewed(holder, now)
        return _step(Circuit(circuit.failures, circuit.until, probe), now, probe.until)

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> Step | None:
        circuit = _circuit(state)
        if not circuit.until:
            return self._count(circuit, ending, now)
        if circuit.probe is None or not circuit.probe.is_of(holder):
            return None  # it started before the circuit opened, and tells nothing about how things are now
        if ending.succeeded:
            return Step(None, wake=ALL)
        if ending.succeeded is False:
            return self._open(circuit.failures + 1, now)
        return _step(Circuit(circuit.failures, circuit.until, None), now, 0, wake=1)

    def _count(self, circuit: Circuit, ending: Ending, now: int) -> Step | None:
        if ending.succeeded:
            return Step(None) if circuit.failures else None
        if ending.succeeded is None:
            return None
        failures = circuit.failures + 1
        return self._open(failures, now) if failures >= self.threshold else _step(Circuit(failures, 0, None), now, 0)

    def _open(self, failures: int, now: int) -> Step:
        until = now + round(self._pause(failures) * 1_000_000)
        return _step(Circuit(failures, until, None), now, until)

    def _pause(self, failures: int) -> float:
        if self.first is None:
            return self.cooldown
        return min(self.cooldown, self.first * 2.0 ** min(failures - self.threshold, _DOUBLINGS))


def _circuit(state: State | None) -> Circuit:
    return state if isinstance(state, Circuit) else _CLOSED


def _step(circuit: Circuit, now: int, wake_at: int, wake: int = 0) -> Step:
    return Step(pack(circuit), max(now, circuit.until) + _KEPT, wake_at, wake)
