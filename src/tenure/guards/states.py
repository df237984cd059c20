"""States: what a store keeps for each guard key, as small tagged JSON arrays, and the names of the keys.

Times are UTC microseconds.
"""

import hashlib
import logging
from collections.abc import Container
from typing import NamedTuple

import msgspec
from msgspec import Struct

logger = logging.getLogger(__name__)

WAKE_ALL = 1 << 31  # more jobs than can be parked under a key
WAKE_GRACE_MICROSECONDS = 5_000_000  # the time of a woken job to take the guard; then the next job is woken
_KEPT_MICROSECONDS = 86_400_000_000  # longer than a lease of a worker that is away is left unreaped
_HOLDING_TAGS = (b"[1", b"[2", b"[5")  # the states that have holds
_MAX_KEY = 200  # characters that every store can index


class Holder(Struct, frozen=True, gc=False):
    """A job under one lease that takes guards; it holds them for `seconds` unless it renews.

    `queue` and `owner` are those of the lease if the store of the guards keeps the leases too: then the job holds its
    guards at least as long as its lease.
    """

    id: str
    fence: int
    seconds: float
    queue: str | None = None
    owner: str = ""

    def until(self, now: int) -> int:
        return now + round(self.seconds * 1_000_000)


class Hold(Struct, frozen=True, array_like=True, gc=False):
    """A holder as the store keeps it, with the time of its start; the same job under a later lease replaces it."""

    id: str
    fence: int
    until: int
    since: int = 0
    queue: str | None = None  # with `owner`, where the store finds the lease; None if it keeps no leases
    owner: str = ""

    @classmethod
    def of(cls, holder: Holder, now: int) -> "Hold":
        return cls(holder.id, holder.fence, holder.until(now), now, holder.queue, holder.owner)

    def is_of(self, holder: Holder) -> bool:
        """Whether exactly this lease of the job holds; an earlier lease does not."""
        return self.id == holder.id and self.fence == holder.fence

    def renewed(self, holder: Holder, now: int) -> "Hold":
        """The same hold with a later end."""
        return self.extended(holder.until(now))

    def extended(self, until: int) -> "Hold":
        return Hold(self.id, self.fence, until, self.since, self.queue, self.owner)

    def yields_to(self, holder: Holder, now: int) -> bool:
        """Whether this holder may ignore the hold: it has expired, or it is of the same job and no later lease."""
        return self.until <= now or (self.id == holder.id and self.fence <= holder.fence)

    def kept_until(self) -> int:
        """When a store may forget it: as long as it may keep a lease, the hold may outlive its own end."""
        return self.until if self.queue is None else self.until + _KEPT_MICROSECONDS


class Slots(Struct, frozen=True, array_like=True, tag=1):
    """The jobs that hold a concurrency limit."""

    limit: int
    holds: tuple[Hold, ...]


class Claimed(Struct, frozen=True, array_like=True, tag=2):
    """An idempotency key whose job has not succeeded yet."""

    hold: Hold


class Done(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """An idempotency key whose job has succeeded; `id` is that job."""

    id: str


class Bucket(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The theoretical arrival time of the rate limit algorithm GCRA; after that time the bucket is full again."""

    interval: int
    burst: int
    arrival: int

    def next_at(self) -> int:
        """When the next token is free, past or future."""
        return self.arrival - (self.burst - 1) * self.interval


class Circuit(Struct, frozen=True, array_like=True, tag=5):
    """A circuit breaker: closed while `until` is 0, then `failures` counts failures in a row.

    While it is open, `until` is when a probe may try, and `probe` is the job that tries.
    """

    failures: int
    until: int
    probe: Hold | None


class Paused(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A queue from which no worker leases, or a worker that leases nothing; `reason` is the text of the user."""

    since: int
    reason: str | None = None


State = Slots | Claimed | Done | Bucket | Circuit | Paused
pack = msgspec.json.Encoder().encode
_unpack = msgspec.json.Decoder(State).decode


def unpack(state: bytes | None) -> State | None:
    """A stored state; one that another program damaged counts as none, and the next change replaces it."""
    if state is None:
        return None
    try:
        found: State = _unpack(state)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        logger.error("the state of a guard cannot be read, and counts as none: %r", state[:80])  # noqa: TRY400
        return None
    return found


def holds_of(state: State | None) -> tuple[Hold, ...]:
    match state:
        case Slots(_, holds):
            return holds
        case Claimed(hold):
            return (hold,)
        case Circuit(_, _, probe) if probe is not None:
            return (probe,)
    return ()


def lapsed_holds(state: bytes | None, now: int) -> list[Hold]:
    """The holds that ended without a settlement, and whose lease the store can look up."""
    if state is None or state[:2] not in _HOLDING_TAGS:
        return []
    return [hold for hold in holds_of(unpack(state)) if hold.until <= now and hold.queue is not None]


def extend_holds(state: bytes, leases: Container[tuple[str, int]], until: int) -> bytes:
    """The state in which the holds of these leases end later."""

    def extended(hold: Hold) -> Hold:
        return hold.extended(max(until, hold.until)) if (hold.id, hold.fence) in leases else hold

    match unpack(state):
        case Slots(limit, holds):
            return pack(Slots(limit, tuple(map(extended, holds))))
        case Claimed(hold):
            return pack(Claimed(extended(hold)))
        case Circuit(failures, open_until, probe) if probe is not None:
            return pack(Circuit(failures, open_until, extended(probe)))
    return state


def is_held(state: bytes | None, now: int) -> bool:
    """Whether a state means something now: slots and claims whose holds have all lapsed do not."""
    if state is None or state[:2] not in _HOLDING_TAGS[:2]:
        return state is not None
    return any(hold.until > now for hold in holds_of(unpack(state)))


class WakePlan(NamedTuple):
    """How many parked jobs to wake now, and when to check the key again."""

    wake: int
    next_check: int


def free_tokens(bucket: Bucket, now: int) -> int:
    """How many starts a rate allows now; 0 or less if none."""
    return min(bucket.burst, (now - bucket.next_at()) // bucket.interval + 1)


def plan_wake(state: bytes | None, now: int) -> WakePlan:
    """How to wake the jobs that are parked under a key when its `wake_at` has come; the state may have expired."""
    match unpack(state):
        case Slots(limit, holds):
            return WakePlan(max(1, limit - sum(hold.until > now for hold in holds)), now + WAKE_GRACE_MICROSECONDS)
        case Bucket(interval) as bucket:
            tokens = free_tokens(bucket, now)
            return WakePlan(max(1, tokens), now + max(1, tokens) * interval)
        case Done():
            return WakePlan(WAKE_ALL, now + WAKE_GRACE_MICROSECONDS)
        case _:
            return WakePlan(1, now + WAKE_GRACE_MICROSECONDS)


def claim_key(key: str) -> str:
    """For the claim of an idempotency key; all queues and handlers of the app share it."""
    return _key("once", key)


def lock_key(name: str) -> str:
    """For a single-instance job: its name, else its handler."""
    return _key("lock", name)


def concurrency_key(handler: str, key: str | None) -> str:
    """For `at_most`: by the `key` of the job, for all handlers; by handler if the job has no key."""
    return _key("most:handler", handler) if key is None else _key("most:key", key)


def rate_key(handler: str, key: str | None) -> str:
    """For `rate`: by the `key` of the job, for all handlers; by handler if the job has no key."""
    return _key("rate:handler", handler) if key is None else _key("rate:key", key)


def queue_rate_key(queue: str) -> str:
    return _key("rate:queue", queue)


def pause_key(queue: str) -> str:
    return _key("pause", queue)


def drain_key(worker: str) -> str:
    return _key("drain", worker)


def breaker_key(name: str) -> str:
    return _key("breaker", name)


def backend_breaker_key(place: str) -> str:
    """For the breaker around a backend."""
    return _key("backend", place)


def _key(kind: str, name: str) -> str:
    whole = f"{kind}:{name}"
    if len(whole) <= _MAX_KEY:
        return whole
    return f"{kind}:{name[:100]}…{hashlib.sha256(name.encode()).hexdigest()}"
