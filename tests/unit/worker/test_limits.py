"""A worker with a limit ends by what all its lanes have done."""

from collections import Counter

import pytest

from tenure.events import Status
from tenure.worker.inbox import HeldLeases
from tenure.worker.lane import WorkerOptions
from tenure.worker.leaser import RunLimits


@pytest.fixture
def holdings():
    return HeldLeases()


@pytest.fixture
def tally():
    return Counter()


@pytest.fixture
def bounds(holdings, tally):
    """Makes the bounds of a worker with two lanes."""

    def make(**terms):
        return RunLimits(WorkerOptions(queues=("a", "b"), **terms), 2, holdings, tally)

    return make


def test_a_burst_is_over_when_every_lane_has_found_nothing(bounds):
    burst = bounds(burst=True)
    burst.found_nothing("a", burst.before_lease())
    assert not burst.are_reached()
    burst.found_nothing("b", burst.before_lease())
    assert burst.are_reached()


def test_a_lane_that_has_found_nothing_looks_again_after_another_was_granted_something(bounds, holdings, lease_of):
    burst = bounds(burst=True)
    burst.found_nothing("a", burst.before_lease())
    assert burst.has_nothing("a")
    lease = lease_of()
    holdings.hold([lease], 0.0, 15.0)
    holdings.drop([lease])
    burst.found_nothing("b", burst.before_lease())
    assert not burst.has_nothing("a")
    assert not burst.are_reached()


def test_finding_nothing_while_a_job_is_held_does_not_count(bounds, holdings, lease_of):
    burst = bounds(burst=True)
    holdings.hold([lease_of()], 0.0, 15.0)
    for lane in "ab":
        burst.found_nothing(lane, burst.before_lease())
    assert not burst.are_reached()


def test_a_worker_without_bounds_never_ends_by_itself(bounds):
    endless = bounds()
    for lane in "ab":
        endless.found_nothing(lane, endless.before_lease())
    assert not endless.are_reached()
    assert endless.reserve(250) == 250


def test_a_worker_told_to_drain_ends_as_a_burst_does(bounds):
    draining = bounds()
    draining.drain()
    for lane in "ab":
        draining.found_nothing(lane, draining.before_lease())
    assert draining.are_reached()


def test_lanes_that_lease_at_once_share_what_is_left(bounds):
    bounded = bounds(max_jobs=10)
    assert [bounded.reserve(6), bounded.reserve(6), bounded.reserve(6)] == [6, 4, 0]


def test_what_was_claimed_and_not_granted_can_be_claimed_by_another(bounds):
    bounded = bounds(max_jobs=10)
    bounded.reserve(10)
    bounded.release(10)
    assert bounded.reserve(7) == 7


def test_a_lane_that_reserves_the_last_jobs_knows_that_the_others_have_none(bounds):
    bounded = bounds(max_jobs=3)
    bounded.reserve(2)
    assert not bounded.are_reserved()
    bounded.reserve(1)
    assert bounded.are_reserved()
    bounded.release(1)
    assert not bounded.are_reserved()


def test_without_a_limit_there_is_always_something_left(bounds):
    endless = bounds()
    endless.reserve(250)
    assert not endless.are_reserved()


def test_what_is_held_and_what_was_settled_count(bounds, holdings, tally, lease_of):
    bounded = bounds(max_jobs=10)
    holdings.hold([lease_of()], 0.0, 15.0)
    tally.update({Status.ACKED: 3, Status.POSTPONED: 5})
    assert bounded.reserve(10) == 6
    tally.update({Status.ACKED: 7})
    assert bounded.are_reached()
