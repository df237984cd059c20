"""The breaker opens after failures in a row, and then lets one probe through for all."""

from hypothesis import given
from hypothesis import strategies as st

from tenure.guards.breaker import Breaker
from tenure.guards.states import WAKE_ALL
from tests.unit.guards.conftest import NOW, SECOND, Key


def opened(threshold=3):
    key = Key(Breaker("breaker:stripe", threshold, 60))
    for number in range(threshold):
        key.take(f"f{number}")
        key.settle(f"f{number}", succeeded=False)
    return key


def test_a_closed_circuit_costs_no_state():
    key = Key(Breaker("breaker:stripe"))
    assert key.take("a") is None
    assert key.settle("a", succeeded=True) is None
    assert key.row.state is None


def test_it_opens_after_so_many_failures_in_a_row():
    key = Key(Breaker("breaker:stripe", 3, 60))
    for id in "ab":
        key.take(id)
        key.settle(id, over=False, succeeded=False)
    assert key.take("c") is None
    key.settle("c", over=False, succeeded=False)
    assert key.take("d").until == NOW + 60 * SECOND


def test_a_success_in_between_starts_the_count_again():
    key = Key(Breaker("breaker:stripe", 2, 60))
    key.settle("a", succeeded=False)
    key.settle("b", succeeded=True)
    key.settle("c", succeeded=False)
    assert key.take("d") is None


def test_an_end_that_tells_nothing_counts_nothing():
    key = Key(Breaker("breaker:stripe", 1, 60))
    assert key.settle("a", over=False, succeeded=None) is None
    assert key.take("b") is None


def test_after_the_cooldown_one_probe_goes_and_only_one():
    """A half-open circuit that lets everybody through is a closed one."""
    key = opened()
    key.advance(60)
    assert key.take("a") is None
    assert [key.take(id).reason for id in "bcd"] == ["circuit_open"] * 3


def test_a_probe_that_succeeds_closes_it_and_wakes_all():
    key = opened()
    key.advance(60)
    key.take("a")
    assert key.settle("a", succeeded=True).wake == WAKE_ALL
    assert key.take("b") is None


def test_a_probe_that_fails_opens_it_again():
    key = opened()
    key.advance(60)
    key.take("a")
    key.settle("a", over=False, succeeded=False)
    assert key.take("b").until == NOW + 120 * SECOND


def test_a_probe_that_tells_nothing_leaves_its_place_to_the_next():
    key = opened()
    key.advance(60)
    key.take("a")
    assert key.settle("a", over=False, succeeded=None).wake == 1
    assert key.take("b") is None


def test_a_probe_that_vanished_leaves_its_place_when_its_lease_is_over():
    key = opened()
    key.advance(60)
    key.take("a")
    key.advance(15)
    assert key.take("b") is None
    assert key.settle("a", succeeded=True) is None


def test_who_started_before_it_opened_neither_closes_nor_prolongs_it():
    key = opened()
    assert key.settle("early", succeeded=True) is None
    assert key.settle("early", succeeded=False) is None
    assert key.take("b").until == NOW + 60 * SECOND


def test_an_open_circuit_is_not_forgotten_while_nobody_probes():
    """State that lives for two cooldowns is forgotten by a quiet fleet."""
    key = opened()
    key.advance(3 * 60)
    assert key.state is not None
    assert key.take("a") is None
    assert key.take("b").reason == "circuit_open"


@given(
    moves=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["take", "good", "bad", "gone", "wait"])), max_size=80
    )
)
def test_while_it_is_not_closed_there_is_never_more_than_one_probe(moves):
    key = opened(2)
    probes = {}
    for fence, (id, move) in enumerate(moves, 100):
        if move == "wait":
            key.advance(20)
        elif move == "take" and key.state is not None and key.take(id, fence) is None:
            probes[id] = (fence, key.now + 15 * SECOND)
        elif id in probes and move in ("good", "bad", "gone"):
            key.settle(id, probes.pop(id)[0], succeeded={"good": True, "bad": False}.get(move))
        if key.state is None or not key.state.until:
            return  # closed: everybody may
        assert sum(until > key.now for _, until in probes.values()) <= 1
