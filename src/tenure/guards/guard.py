"""Guard: a condition that a job takes before it runs, and the changes that take, renew and settle the guards of a job.

Each function returns a Change for a store; the store gives its answer.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from tenure.guards.states import Holder, Paused, State, is_held, pack, pause_key, unpack
from tenure.guards.store import Change, Decision, KeyUpdate, Store

Reason = Literal["busy", "rate_limited", "circuit_open", "claimed", "done"]
_CENTURY = 100 * 365 * 86_400 * 1_000_000  # microseconds: every state expires, and a pause must last until it is ended


class Refusal(Struct, frozen=True, gc=False):
    """The job may not start now; `until` is when to try again, unless the key changes before.

    For the reason `done`, `first` is the job that succeeded with the idempotency key.
    """

    key: str
    reason: Reason
    until: int = 0
    first: str | None = None


class Ending(NamedTuple):
    """How a run ended: `over` means for good, else the job is tried again in `again` seconds.

    `succeeded` is None if it is not known.
    """

    over: bool
    succeeded: bool | None = None
    again: float = 0.0


class Guard(Protocol):
    """One key, and three pure functions of its state."""

    @property
    def key(self) -> str: ...

    def take(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        """Let a job start; None if the state does not change."""
        ...

    def renew(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None: ...

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> KeyUpdate | None: ...


def take_guards(guards: Sequence[Guard], holder: Holder) -> Change:
    """Take every guard or none; the answer is None, or the first refusal.

    Put guards that cannot be given back last: a job that does not start must not spend a token.
    """

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        updates = []
        for guard, state in zip(guards, states, strict=True):
            taken = guard.take(unpack(state), holder, now)
            if isinstance(taken, Refusal):
                return Decision(taken)
            updates.append(taken)
        return Decision(None, updates)

    return Change(_keys(guards), decide)


def take_guard(guard: Guard, holder: Holder) -> Change:
    """Take one guard; the answer is a refusal, or whether the holder must renew it."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        taken = guard.take(unpack(states[0]), holder, now)
        return Decision(taken) if isinstance(taken, Refusal) else Decision(taken is not None, [taken])

    return Change((guard.key,), decide)


def renew_guards(guards: Sequence[Guard], holder: Holder) -> Change:
    """Extend what the job holds; the answer is whether it still holds all of it."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        renewed = [guard.renew(unpack(state), holder, now) for guard, state in zip(guards, states, strict=True)]
        updates = [each if isinstance(each, KeyUpdate) else None for each in renewed]
        return Decision(not any(isinstance(each, Refusal) for each in renewed), updates)

    return Change(_keys(guards), decide)


def settle_guards(guards: Sequence[Guard], holder: Holder, ending: Ending) -> Change:
    """Release, mark as done, or count a failure, after a run has ended; a stale holder changes nothing."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        pairs = zip(guards, states, strict=True)
        return Decision(None, [guard.settle(unpack(state), holder, ending, now) for guard, state in pairs])

    return Change(_keys(guards), decide)


def forget_keys(*keys: str, wake: int = 1) -> Change:
    """Delete the states of keys, and wake up to `wake` parked jobs of each; the answer is how many keys had a state."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        return Decision(
            sum(is_held(state, now) for state in states),
            [KeyUpdate(None, wake=wake)] * len(states),  # jobs may wait for a key whose state has expired
        )

    return Change(keys, decide)


def pause_queue(queue: str, reason: str | None) -> Change:
    """Pause a queue; the answer is False if it was paused already, and then the first reason stays."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        if isinstance(unpack(states[0]), Paused):
            return Decision(False)
        return Decision(True, [KeyUpdate(pack(Paused(now, reason)), now + _CENTURY)])

    return Change((pause_key(queue),), decide)


def paused(store: Store, queues: Sequence[str]) -> dict[str, Paused]:
    """The paused ones of these queues."""
    keys = {pause_key(queue): queue for queue in queues}
    _, states = store.read(list(keys))
    found = {keys[key]: unpack(state) for key, state in states.items()}
    return {queue: state for queue, state in found.items() if isinstance(state, Paused)}


def _keys(guards: Sequence[Guard]) -> tuple[str, ...]:
    return tuple([guard.key for guard in guards])
