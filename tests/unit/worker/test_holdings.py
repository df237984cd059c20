"""A suspect runs alone in its worker, whichever lane it came by."""

import pytest

from tenure.worker.holdings import Holdings


@pytest.fixture
def holdings():
    return Holdings()


def test_a_suspect_starts_when_nothing_else_is_held(holdings, lease_of):
    assert holdings.hold([lease_of(suspect=True)], 0.0, 15.0)


def test_a_suspect_does_not_start_beside_other_jobs(holdings, lease_of):
    holdings.hold([lease_of(fence=1)], 0.0, 15.0)
    assert not holdings.hold([lease_of(fence=2, suspect=True)], 0.0, 15.0)


def test_what_another_lane_leases_does_not_start_beside_a_suspect(holdings, lease_of):
    holdings.hold([lease_of(fence=1, suspect=True)], 0.0, 15.0)
    assert not holdings.may_grow("another lane")
    assert not holdings.hold([lease_of(fence=2)], 0.0, 15.0)


def test_the_lane_that_met_a_suspect_is_the_next_to_lease_once_nothing_is_held(holdings, lease_of):
    lease = lease_of()
    holdings.hold([lease], 0.0, 15.0)
    holdings.leave_alone("mine")
    assert [holdings.may_grow("mine"), holdings.may_grow("another")] == [False, False]
    holdings.drop([lease])
    assert [holdings.may_grow("mine"), holdings.may_grow("another")] == [True, False]
    holdings.go_on("mine")
    assert holdings.may_grow("another")


def test_only_the_lane_that_waits_can_end_the_wait(holdings):
    holdings.leave_alone("mine")
    holdings.go_on("another")
    assert not holdings.may_grow("another")
