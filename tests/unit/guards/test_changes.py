"""All the guards of a job are taken, or none."""

from tenure.guards.breaker import Breaker
from tenure.guards.changes import forgetting, renewing, settling, taking
from tenure.guards.guard import Ending
from tenure.guards.idempotency import Once
from tenure.guards.memory import MemoryStore
from tenure.guards.rate import AtRate, Rate
from tenure.guards.slots import AtMost
from tenure.guards.states import Holder
from tenure.testing import FakeClock

LOCK, KEY, BUCKET = AtMost("lock:x"), Once("once:x"), AtRate("rate:x", Rate(1, 60))
A, B = Holder("a", 1, 15), Holder("b", 1, 15)


def test_a_refusal_leaves_every_other_guard_as_it_was():
    store = MemoryStore(FakeClock())
    store.change([taking([LOCK], A)])
    (refusal,) = store.change([taking([KEY, LOCK, BUCKET], B)])
    assert refusal.key == "lock:x"
    assert store.look(["once:x", "rate:x"])[1] == {}


def test_within_a_batch_a_later_change_sees_an_earlier_one():
    store = MemoryStore(FakeClock())
    first, second = store.change([taking([LOCK], A), taking([LOCK], B)])
    assert first is None
    assert second.reason == "busy"


def test_the_end_of_a_run_settles_all_its_guards():
    store = MemoryStore(FakeClock())
    guards = [Breaker("breaker:x"), KEY, LOCK]
    store.change([taking(guards, A)])
    store.change([settling(guards, A, Ending(over=True, succeeded=True))])
    assert store.look(["breaker:x", "lock:x"])[1] == {}
    assert store.change([taking(guards, B)])[0].first == "a"


def test_a_renewal_tells_when_something_was_lost():
    clock = FakeClock()
    store = MemoryStore(clock)
    store.change([taking([KEY, LOCK], A)])
    assert store.change([renewing([KEY, LOCK], A)]) == [True]
    clock.advance(15)
    store.change([taking([LOCK], B)])
    assert store.change([renewing([KEY, LOCK], A)]) == [False]


def test_a_forgotten_key_can_be_taken_again():
    store = MemoryStore(FakeClock())
    store.change([taking([KEY], A)])
    store.change([settling([KEY], A, Ending(over=True, succeeded=True))])
    assert store.change([forgetting("once:x", "once:y")]) == [1]
    assert store.change([taking([KEY], B)]) == [None]
