"""A job takes all of its guards, or none."""

from tenure.guards.breaker import Breaker
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import Ending, forget_keys, renew_guards, settle_guards, take_guards
from tenure.guards.idempotency import Idempotency
from tenure.guards.rate_limit import Rate, RateLimit
from tenure.guards.states import Holder
from tenure.guards.store import MemoryStore
from tenure.testing import FakeClock

LOCK, KEY, BUCKET = ConcurrencyLimit("lock:x"), Idempotency("once:x"), RateLimit("rate:x", Rate(1, 60))
A, B = Holder("a", 1, 15), Holder("b", 1, 15)


def test_a_refusal_leaves_every_other_guard_as_it_was():
    store = MemoryStore(FakeClock())
    store.change([take_guards([LOCK], A)])
    (refusal,) = store.change([take_guards([KEY, LOCK, BUCKET], B)])
    assert refusal.key == "lock:x"
    assert store.read(["once:x", "rate:x"])[1] == {}


def test_within_a_batch_a_later_change_sees_an_earlier_one():
    store = MemoryStore(FakeClock())
    first, second = store.change([take_guards([LOCK], A), take_guards([LOCK], B)])
    assert first is None
    assert second.reason == "busy"


def test_the_end_of_a_run_settles_all_its_guards():
    store = MemoryStore(FakeClock())
    guards = [Breaker("breaker:x"), KEY, LOCK]
    store.change([take_guards(guards, A)])
    store.change([settle_guards(guards, A, Ending(over=True, succeeded=True))])
    assert store.read(["breaker:x", "lock:x"])[1] == {}
    assert store.change([take_guards(guards, B)])[0].first == "a"


def test_a_renewal_tells_when_something_was_lost():
    clock = FakeClock()
    store = MemoryStore(clock)
    store.change([take_guards([KEY, LOCK], A)])
    assert store.change([renew_guards([KEY, LOCK], A)]) == [True]
    clock.advance(15)
    store.change([take_guards([LOCK], B)])
    assert store.change([renew_guards([KEY, LOCK], A)]) == [False]


def test_a_forgotten_key_can_be_taken_again():
    store = MemoryStore(FakeClock())
    store.change([take_guards([KEY], A)])
    store.change([settle_guards([KEY], A, Ending(over=True, succeeded=True))])
    assert store.change([forget_keys("once:x", "once:y")]) == [1]
    assert store.change([take_guards([KEY], B)]) == [None]
