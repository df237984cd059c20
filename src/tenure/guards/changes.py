"""Changes: all the guards of one job taken, renewed or settled in one step."""

from collections.abc import Sequence

from tenure.guards.guard import Ending, Guard, Refusal
from tenure.guards.states import Holder, unpack
from tenure.guards.store import Change, Decision, Step


def taking(guards: Sequence[Guard], holder: Holder) -> Change:
    """Take every guard or none; the answer is None, or the first refusal.

    The last ones are those that cannot be given back: a token is spent only by a job that starts.
    """

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        steps = []
        for guard, state in zip(guards, states, strict=True):
            taken = guard.take(unpack(state), holder, now)
            if isinstance(taken, Refusal):
                return Decision(taken)
            steps.append(taken)
        return Decision(None, steps)

    return Change(_keys(guards), decide)


def entering(guard: Guard, holder: Holder) -> Change:
    """Take one guard; the answer is a refusal, or whether there is something to keep while it is held."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        taken = guard.take(unpack(states[0]), holder, now)
        return Decision(taken) if isinstance(taken, Refusal) else Decision(taken is not None, [taken])

    return Change((guard.key,), decide)


def renewing(guards: Sequence[Guard], holder: Holder) -> Change:
    """Keep what is held; the answer is whether all of it still is."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        renewed = [guard.renew(unpack(state), holder, now) for guard, state in zip(guards, states, strict=True)]
        steps = [step if isinstance(step, Step) else None for step in renewed]
        return Decision(not any(isinstance(step, Refusal) for step in renewed), steps)

    return Change(_keys(guards), decide)


def settling(guards: Sequence[Guard], holder: Holder, ending: Ending) -> Change:
    """Give back, mark done, count: what the end of a run does; nothing for a holder that is stale."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:
        pairs = zip(guards, states, strict=True)
        return Decision(None, [guard.settle(unpack(state), holder, ending, now) for guard, state in pairs])

    return Change(_keys(guards), decide)


def forgetting(*keys: str, wake: int = 1) -> Change:
    """Drop the states of keys, and let a waiter of each try, or as many as that; the answer is how many there were."""

    def decide(states: Sequence[bytes | None], now: int) -> Decision:  # noqa: ARG001
        return Decision(
            sum(state is not None for state in states),
            [None if state is None else Step(None, wake=wake) for state in states],
        )

    return Change(keys, decide)


def _keys(guards: Sequence[Guard]) -> tuple[str, ...]:
    return tuple([guard.key for guard in guards])
