"""A suspect runs alone in its worker, in any lane."""

import pytest

from tenure.worker.inbox import HeldLeases


@pytest.fixture
def holdings():
    return HeldLeases()


def test_a_suspect_starts_when_nothing_else_is_held(holdings, lease_of):
    assert holdings.hold([lease_of(suspect=True)], 0.0, 15.0)


def test_a_suspect_does_not_start_beside_other_jobs(holdings, lease_of):
    holdings.hold([lease_of(fence=1)], 0.0, 15.0)
    assert not holdings.hold([lease_of(fence=2, suspect=True)], 0.0, 15.0)


def test_what_another_lane_leases_does_not_start_beside_a_suspect(holdings, lease_of):
    holdings.hold([lease_of(fence=1, suspect=True)], 0.0, 15.0)
    assert not holdings.may_lease("another lane")
    assert not holdings.hold([lease_of(fence=2)], 0.0, 15.0)


def test_the_lane_that_met_a_suspect_is_the_next_to_lease_once_nothing_is_held(holdings, lease_of):
    lease = lease_of()
    holdings.hold([lease], 0.0, 15.0)
    holdings.lease_next_alone("mine")
    assert [holdings.may_lease("mine"), holdings.may_lease("another")] == [False, False]
    holdings.drop([lease])
    assert [holdings.may_lease("mine"), holdings.may_lease("another")] == [True, False]
    holdings.end_turn("mine")
    assert holdings.may_lease("another")


def test_only_the_lane_that_waits_can_end_the_wait(holdings):
    holdings.lease_next_alone("mine")
    holdings.end_turn("another")
    assert not holdings.may_lease("another")
