"""A bounded worker ends by what all its lanes have done."""

from collections import Counter

import pytest

from tenure.events import Status
from tenure.worker.bounds import Bounds
from tenure.worker.holdings import Holdings
from tenure.worker.terms import Terms


@pytest.fixture
def holdings():
    return Holdings()


@pytest.fixture
def tally():
    return Counter()


@pytest.fixture
def bounds(holdings, tally):
    """Makes the bounds of a worker with two lanes."""

    def make(**terms):
        return Bounds(Terms(queues=("a", "b"), **terms), 2, holdings, tally)

    return make


def test_a_burst_is_over_when_every_lane_has_found_nothing(bounds):
    burst = bounds(burst=True)
    burst.found_nothing("a", burst.before_looking())
    assert not burst.are_reached()
    burst.found_nothing("b", burst.before_looking())
    assert burst.are_reached()


def test_a_lane_that_has_found_nothing_looks_again_after_another_was_granted_something(bounds, holdings, lease_of):
    burst = bounds(burst=True)
    burst.found_nothing("a", burst.before_looking())
    assert burst.has_nothing("a")
    lease = lease_of()
    holdings.hold([lease], 0.0, 15.0)
    holdings.drop([lease])
    burst.found_nothing("b", burst.before_looking())
    assert not burst.has_nothing("a")
    assert not burst.are_reached()


def test_finding_nothing_while_a_job_is_held_does_not_count(bounds, holdings, lease_of):
    burst = bounds(burst=True)
    holdings.hold([lease_of()], 0.0, 15.0)
    for lane in "ab":
        burst.found_nothing(lane, burst.before_looking())
    assert not burst.are_reached()


def test_a_worker_without_bounds_never_ends_by_itself(bounds):
    endless = bounds()
    for lane in "ab":
        endless.found_nothing(lane, endless.before_looking())
    assert not endless.are_reached()
    assert endless.claim(250) == 250


def test_a_worker_told_to_drain_ends_as_a_burst_does(bounds):
    draining = bounds()
    draining.drain()
    for lane in "ab":
        draining.found_nothing(lane, draining.before_looking())
    assert draining.are_reached()


def test_lanes_that_lease_at_once_share_what_is_left(bounds):
    bounded = bounds(most=10)
    assert [bounded.claim(6), bounded.claim(6), bounded.claim(6)] == [6, 4, 0]


def test_what_was_claimed_and_not_granted_can_be_claimed_by_another(bounds):
    bounded = bounds(most=10)
    bounded.claim(10)
    bounded.unclaim(10)
    assert bounded.claim(7) == 7


def test_what_is_held_and_what_was_settled_count(bounds, holdings, tally, lease_of):
    bounded = bounds(most=10)
    holdings.hold([lease_of()], 0.0, 15.0)
    tally.update({Status.ACKED: 3, Status.POSTPONED: 5})
    assert bounded.claim(10) == 6
    tally.update({Status.ACKED: 7})
    assert bounded.are_reached()
