"""Once: an idempotency key, claimed while its job is under way and done only when it has succeeded."""

from msgspec import Struct

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import Claimed, Done, Hold, Holder, State, pack
from tenure.guards.store import ALL, Step

DAY = 86_400.0
_LEASES = 2  # a claim outlives the next retry by so many


class Once(Struct, frozen=True, gc=False):
    """One success within `ttl` seconds; a failure or a crash never passes for one."""

    key: str
    ttl: float = DAY

    def take(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        if isinstance(state, Done):
            return Refusal(self.key, "done", first=state.id)
        if isinstance(state, Claimed) and not state.hold.yields_to(holder, now):
            return Refusal(self.key, "claimed", state.hold.until)
        if isinstance(state, Claimed) and state.hold.is_of(holder):
            return _claimed(state.hold.renewed(holder, now))
        return _claimed(Hold(holder.id, holder.fence, holder.until(now), now))

    def renew(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        return self.take(state, holder, now)

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> Step | None:
        if not isinstance(state, Claimed) or not state.hold.is_of(holder):
            return None
        if not ending.over:
            until = now + round((ending.again + _LEASES * holder.seconds) * 1_000_000)
            return _claimed(Hold(holder.id, holder.fence, until, state.hold.since))
        if ending.succeeded:
            return Step(pack(Done(holder.id)), now + round(self.ttl * 1_000_000), wake=ALL)
        return Step(None, wake=1)


def _claimed(hold: Hold) -> Step:
    return Step(pack(Claimed(hold)), hold.until, hold.until)
