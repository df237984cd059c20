"""At most so many holders at a time, by owner and fence, for as long as each renews."""

from hypothesis import given
from hypothesis import strategies as st

from tenure.guards.concurrency_limit import ConcurrencyLimit
from tests.unit.guards.conftest import NOW, SECOND, Key


def test_a_free_lock_is_taken_and_a_held_one_is_not():
    key = Key(ConcurrencyLimit("lock:report"))
    assert key.take("a") is None
    refusal = key.take("b")
    assert (refusal.key, refusal.reason, refusal.until) == ("lock:report", "busy", NOW + 15 * SECOND)


def test_a_released_lock_is_free_and_wakes_one_waiter():
    key = Key(ConcurrencyLimit("lock:report"))
    key.take("a")
    assert key.settle("a").wake == 1
    assert key.row.state is None
    assert key.take("b") is None


def test_the_same_job_re_enters_with_its_higher_fence():
    key = Key(ConcurrencyLimit("lock:report"))
    key.take("a", fence=1)
    assert key.take("a", fence=2) is None
    assert key.state.holds[0].fence == 2


def test_a_stale_holder_changes_nothing():
    key = Key(ConcurrencyLimit("lock:report"))
    key.take("a", fence=1)
    key.take("a", fence=2)
    assert key.settle("a", fence=1) is None
    assert key.take("a", fence=1).reason == "busy"
    assert key.renew("a", fence=1).reason == "busy"
    assert key.state.holds[0].fence == 2


def test_a_lock_outlives_any_guess_when_it_is_renewed():
    key = Key(ConcurrencyLimit("lock:report"))
    key.take("a")
    for _ in range(100):
        key.advance(10)
        assert key.renew("a") is None
        assert key.take("b").reason == "busy"


def test_a_vanished_holder_is_freed_when_its_lease_would_be():
    key = Key(ConcurrencyLimit("lock:report"))
    key.take("a")
    key.advance(15)
    assert key.take("b") is None
    assert key.renew("a").reason == "busy"


def test_what_is_held_is_renewed_although_the_limit_was_lowered():
    key = Key(ConcurrencyLimit("most:report", 3))
    for id in "abc":
        key.take(id)
    key.guard = ConcurrencyLimit("most:report", 1)
    assert [key.renew(id) for id in "abc"] == [None] * 3
    assert key.take("d").reason == "busy"


moves = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["take", "renew", "settle", "wait"]), st.floats(0, 20)),
    max_size=60,
)


@given(limit=st.integers(1, 4), moves=moves)
def test_there_are_never_more_holders_than_places(limit, moves):
    key, held = Key(ConcurrencyLimit("most:x", limit)), {}
    for fence, (id, move, seconds) in enumerate(moves):
        if move == "wait":
            key.advance(seconds)
        elif move == "settle" and id in held:
            key.settle(id, held.pop(id)[0])
        elif move == "renew" and id in held and key.renew(id, held[id][0]) is None:
            held[id] = (held[id][0], key.now + 15 * SECOND)
        elif move == "take" and key.take(id, fence) is None:
            held[id] = (fence, key.now + 15 * SECOND)
        live = [id for id, (_, until) in held.items() if until > key.now]
        assert len(live) <= limit
