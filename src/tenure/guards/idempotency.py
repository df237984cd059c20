"""Idempotency: a key that a job claims while it is under way; it is done only after the job has succeeded."""

from msgspec import Struct

from tenure.guards.guard import Ending, Refusal
from tenure.guards.states import WAKE_ALL, Claimed, Done, Hold, Holder, State, pack
from tenure.guards.store import KeyUpdate

DAY = 86_400.0  # seconds
_CLAIM_LEASES = 2  # a claim ends two leases after the next retry is due


class Idempotency(Struct, frozen=True, gc=False):
    """One success within `ttl` seconds; a failure or a crash never counts as a success."""

    key: str
    ttl: float = DAY

    def take(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        if isinstance(state, Done):
            return Refusal(self.key, "done", first=state.id)
        if isinstance(state, Claimed) and not state.hold.yields_to(holder, now):
            return Refusal(self.key, "claimed", state.hold.until)
        if isinstance(state, Claimed) and state.hold.is_of(holder):
            return _claim(state.hold.renewed(holder, now))
        return _claim(Hold.of(holder, now))

    def renew(self, state: State | None, holder: Holder, now: int) -> KeyUpdate | Refusal | None:
        return self.take(state, holder, now)

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> KeyUpdate | None:
        """A success is recorded unless another job has the key by now, also if the claim has lapsed."""
        claim = state.hold if isinstance(state, Claimed) else None
        if isinstance(state, Done) or (claim is not None and not claim.yields_to(holder, now)):
            return None
        if ending.over and ending.succeeded:
            return KeyUpdate(pack(Done(holder.id)), now + round(self.ttl * 1_000_000), wake=WAKE_ALL)
        if claim is None or not claim.is_of(holder):
            return None
        if ending.over:
            return KeyUpdate(None, wake=1)
        return _claim(claim.extended(now + round((ending.again + _CLAIM_LEASES * holder.seconds) * 1_000_000)))


def _claim(hold: Hold) -> KeyUpdate:
    return KeyUpdate(pack(Claimed(hold)), hold.kept_until(), hold.until)
