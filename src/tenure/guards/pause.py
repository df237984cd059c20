"""Pauses: queues that are left alone until somebody resumes them, whoever works on them."""

from collections.abc import Sequence

from tenure.guards.keys import pause_key
from tenure.guards.states import Paused, pack, unpack
from tenure.guards.store import Change, Decision, Step, Store

_FOR_EVER = 100 * 365 * 86_400 * 1_000_000  # microseconds: all state expires, but nobody sees this one go


def pausing(queue: str, reason: str | None) -> Change:
    """Pause a queue; the answer is whether it was not paused before, and the first reason stays."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        if isinstance(unpack(states[0]), Paused):
            return Decision(False)
        return Decision(True, [Step(pack(Paused(now, reason)), now + _FOR_EVER)])

    return Change((pause_key(queue),), decide)


def paused(store: Store, queues: Sequence[str]) -> dict[str, Paused]:
    """Those of these queues that are paused."""
    keys = {pause_key(queue): queue for queue in queues}
    _, states = store.look(list(keys))
    found = {keys[key]: unpack(state) for key, state in states.items()}
    return {queue: state for queue, state in found.items() if isinstance(state, Paused)}
