"""The time since which a guard is held survives renewals, and starts again with the next holder."""

import pytest

from tenure.guards.breaker import Breaker
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Ending
from tenure.guards.idempotency import Idempotency
from tenure.guards.states import Circuit, Claimed, Holder, Slots, pack, unpack

ONE, NEXT = Holder("one", 1, 10.0), Holder("two", 1, 10.0)


def since(state: bytes) -> int:
    match unpack(state):
        case Slots(_, (hold,)) | Claimed(hold) | Circuit(_, _, hold):
            return hold.since
    raise AssertionError


@pytest.mark.parametrize(
    ("guard", "state"),
    [(ConcurrencyLimit("key"), None), (Idempotency("key"), None), (Breaker("key"), pack(Circuit(5, 1, None)))],
)
def test_a_renewal_keeps_since_when_it_is_held(guard, state):
    taken = guard.take(unpack(state), ONE, 100)
    assert since(taken.state) == 100
    renewed = guard.renew(unpack(taken.state), ONE, 5_000_000)
    assert since(renewed.state) == 100
    over = guard.take(unpack(renewed.state), NEXT, 20_000_000)
    assert since(over.state) == 20_000_000


def test_a_claim_that_waits_for_a_retry_keeps_since_when():
    taken = Idempotency("key").take(None, ONE, 100)
    waits = Idempotency("key").settle(unpack(taken.state), ONE, Ending(over=False, succeeded=False, again=3.0), 200)
    assert since(waits.state) == 100
