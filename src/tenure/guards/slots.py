"""AtMost: a lock with so many places; each is kept by its holder's renewals, not by a guess at how long a job takes."""

from msgspec import Struct

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Hold, Holder, Slots, State, pack
from tenure.guards.store import Step


class AtMost(Struct, frozen=True, gc=False):
    """At most `limit` jobs hold the key at a time; one is a single-instance lock."""

    key: str
    limit: int = 1

    def take(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        holds = [hold for hold in _holds(state) if not hold.yields_to(holder, now)]
        stale = any(hold.id == holder.id for hold in holds)
        if stale or len(holds) >= self.limit:
            return Refusal(self.key, "busy", min(hold.until for hold in holds))
        return self._step([*holds, Hold(holder.id, holder.fence, holder.until(now), now)])

    def renew(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        """What is held stays held, even when the limit was lowered; what somebody reset is taken again if it can be."""
        holds = _holds(state)
        mine = [hold for hold in holds if hold.is_of(holder)]
        if not mine:
            return self.take(state, holder, now)
        others = [hold for hold in holds if hold.id != holder.id]
        return self._step([*others, mine[0].renewed(holder, now)])

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> Step | None:  # noqa: ARG002
        holds = _holds(state)
        left = [hold for hold in holds if not hold.is_of(holder)]
        if len(left) == len(holds):
            return None
        return self._step([hold for hold in left if hold.until > now], wake=1)

    def _step(self, holds: list[Hold], wake: int = 0) -> Step:
        if not holds:
            return Step(None, wake=wake)
        untils = [hold.until for hold in holds]
        wake_at = min(untils) if len(holds) >= self.limit else 0
        return Step(pack(Slots(self.limit, tuple(holds))), max(untils), wake_at, wake)


def _holds(state: State | None) -> tuple[Hold, ...]:
    return state.holds if isinstance(state, Slots) else ()
