"""ConcurrencyLimit: how many jobs may hold a key at a time; a limit of 1 is a single-instance lock.

A job holds its slot by renewal, so its length does not have to be estimated.
"""

from msgspec import Struct

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Hold, Holder, Slots, State, pack
from tenure.guards.store import KeyUpdate


class ConcurrencyLimit(Struct, frozen=True, gc=False):
    """At most `limit` jobs hold the key at a time."""

    key: str
    limit: int = 1

    def take(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        holds = [hold for hold in _holds(state) if not hold.yields_to(holder, now)]
        stale = any(hold.id == holder.id for hold in holds)
        if stale or len(holds) >= self.limit:
            return Refusal(self.key, "busy", min(hold.until for hold in holds))
        return self._update([*holds, Hold.of(holder, now)])

    def renew(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        """Keep the slot, even if the limit was lowered; if a user has freed the slot, take one again if possible."""
        holds = _holds(state)
        own = [hold for hold in holds if hold.is_of(holder)]
        if not own:
            return self.take(state, holder, now)
        others = [hold for hold in holds if hold.id != holder.id and hold.until > now]
        return self._update([*others, own[0].renewed(holder, now)])

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> KeyUpdate | None:  # noqa: ARG002
        holds = _holds(state)
        left = [hold for hold in holds if not hold.is_of(holder)]
        if len(left) == len(holds):
            return None
        return self._update([hold for hold in left if hold.until > now], wake=1)

    def _update(self, holds: list[Hold], wake: int = 0) -> KeyUpdate:
        if not holds:
            return KeyUpdate(None, wake=wake)
        untils = [hold.until for hold in holds]
        wake_at = min(untils) if len(holds) >= self.limit else 0
        kept_until = max(hold.kept_until() for hold in holds)
        return KeyUpdate(pack(Slots(self.limit, tuple(holds))), kept_until, wake_at, wake)


def _holds(state: State | None) -> tuple[Hold, ...]:
    return state.holds if isinstance(state, Slots) else ()
