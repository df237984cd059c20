"""States: what a store remembers under a key, as small tagged JSON arrays."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from tenure.guards.store import ALL, PROMISE


class Holder(Struct, frozen=True, gc=False):
    """Who holds: a job under one lease, for so many seconds unless renewed."""

    id: str
    fence: int
    seconds: float

    def until(self, now: int) -> int:
        return now + round(self.seconds * 1_000_000)


class Hold(Struct, frozen=True, array_like=True, gc=False):
    """A holder in a store, since when it has been one; the same job under a later lease takes its place."""

    id: str
    fence: int
    until: int
    since: int = 0

    def is_of(self, holder: Holder) -> bool:
        """Whether this very lease holds: a stale one does not, whatever it thinks."""
        return self.id == holder.id and self.fence == holder.fence

    def renewed(self, holder: Holder, now: int) -> "Hold":
        """The same hold for another while."""
        return Hold(self.id, self.fence, holder.until(now), self.since)

    def yields_to(self, holder: Holder, now: int) -> bool:
        """Whether a holder need not mind: this one is over, or it is the same job, not under a later lease."""
        return self.until <= now or (self.id == holder.id and self.fence <= holder.fence)


class Slots(Struct, frozen=True, array_like=True, tag=1):
    """Who holds which of so many places."""

    limit: int
    holds: tuple[Hold, ...]


class Claimed(Struct, frozen=True, array_like=True, tag=2):
    """A key whose job has not succeeded yet."""

    hold: Hold


class Done(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A key whose job, the one with this id, has succeeded."""

    id: str


class Bucket(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The theoretical arrival time of GCRA; the bucket is full again when it has passed."""

    interval: int
    burst: int
    arrival: int

    def next_at(self) -> int:
        """When there is a token, past or future."""
        return self.arrival - (self.burst - 1) * self.interval


class Circuit(Struct, frozen=True, array_like=True, tag=5):
    """Failures in a row while closed (`until` is 0); while open, when a probe may try, and which one does."""

    failures: int
    until: int
    probe: Hold | None


class Paused(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A queue that nobody leases from; `since` is UTC microseconds, `reason` what whoever paused it said."""

    since: int
    reason: str | None = None


State = Slots | Claimed | Done | Bucket | Circuit | Paused
pack = msgspec.json.Encoder().encode
_unpack = msgspec.json.Decoder(State).decode


def unpack(state: bytes | None) -> State | None:
    return None if state is None else _unpack(state)


class Knock(NamedTuple):
    """How many waiters to wake now, and when to ask again; UTC microseconds."""

    wake: int
    again: int


def knock(state: bytes | None, now: int) -> Knock:
    """What to do for the jobs parked under a key whose time to try again has come; its state may be expired."""
    match unpack(state):
        case Slots(limit, holds):
            return Knock(max(1, limit - sum(hold.until > now for hold in holds)), now + PROMISE)
        case Bucket(interval, burst) as bucket:
            tokens = min(burst, (now - bucket.next_at()) // interval + 1)
            return Knock(max(1, tokens), now + max(1, tokens) * interval)
        case Done():
            return Knock(ALL, now + PROMISE)
        case _:
            return Knock(1, now + PROMISE)
