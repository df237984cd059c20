"""Guard: a condition that a job takes before it runs, and the changes that take, renew and settle the guards of a job.

Each function returns a Change for a store; the store gives its answer.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from tenure.guards.states import Holder, Paused, State, drain_key, is_held, pack, pause_key, unpack
from tenure.guards.store import Change, Decision, KeyUpdate, KeyWait, Store

Reason = Literal["busy", "rate_limited", "circuit_open", "claimed", "done"]
_DAY = 86_400 * 1_000_000  # microseconds: what a killed worker left of its drain ends after this time
_CENTURY = 100 * 365 * _DAY  # every state expires, and a pause must last until it is ended


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
                return Decision(taken, wait=KeyWait(taken.key, taken.until))
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
    return _pause(pause_key(queue), reason, _CENTURY)


def drain_worker(worker: str, reason: str | None) -> Change:
    """Let a worker lease nothing more; the answer is False if it drained already, and then the first reason stays."""
    return _pause(drain_key(worker), reason, _DAY)


def renew_drain(worker: str) -> Change:
    """Keep a drain that has not been ended: the worker does so as long as it lives."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        return Decision(None, [None if states[0] is None else KeyUpdate(states[0], now + _DAY)])

    return Change((drain_key(worker),), decide)


class Pauses(NamedTuple):
    """What no job is leased for now: the paused queues, and the draining workers, by name."""

    queues: dict[str, Paused]
    workers: dict[str, Paused]


def read_pauses(store: Store, queues: Sequence[str], workers: Sequence[str] = ()) -> Pauses:
    """Which of these queues are paused and which of these workers drain, in one call."""
    queue_keys, worker_keys = [*map(pause_key, queues)], [*map(drain_key, workers)]
    keys = [*queue_keys, *worker_keys]
    states = store.read(keys)[1] if keys else {}
    found = {key: state for key in keys if isinstance(state := unpack(states.get(key)), Paused)}
    return Pauses(
        {queue: found[key] for queue, key in zip(queues, queue_keys, strict=True) if key in found},
        {worker: found[key] for worker, key in zip(workers, worker_keys, strict=True) if key in found},
    )


def _pause(key: str, reason: str | None, microseconds: int) -> Change:
    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        if isinstance(unpack(states[0]), Paused):
            return Decision(False)
        return Decision(True, [KeyUpdate(pack(Paused(now, reason)), now + microseconds)])

    return Change((key,), decide)


def _keys(guards: Sequence[Guard]) -> tuple[str, ...]:
    return tuple([guard.key for guard in guards])
