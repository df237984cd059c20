"""Signals computed from counts, ages, rates and the values before."""

import pytest

from tenure.metrics.queue_signals import EarlierCounts, queue_signals


def one(counts, ages=None, rates=None, before=None):
    (found,) = queue_signals({"mail": counts}, ages, rates, before)
    return found


def test_counts_are_told_as_they_are():
    found = one({"ready": 3, "delayed": 1, "parked": 2, "leased": 4, "dead": 5})
    assert (found.ready, found.delayed, found.parked, found.leased, found.dead) == (3, 1, 2, 4, 5)


def test_what_nobody_knows_is_none():
    found = one({"ready": 3})
    assert (found.oldest_age, found.arrival_rate, found.service_rate, found.seconds_to_drain) == (None,) * 4


def test_a_queue_without_waiting_jobs_has_the_age_zero_and_is_drained():
    found = one({"leased": 1}, ages={}, rates={})
    assert (found.oldest_age, found.service_rate, found.seconds_to_drain) == (0.0, 0.0, 0.0)


def test_a_queue_that_nobody_works_on_is_never_drained():
    assert one({"ready": 3}, rates={}, ages={}).seconds_to_drain is None


def test_what_is_ready_is_drained_at_the_pace_of_the_last_minute():
    assert one({"ready": 30, "delayed": 99}, rates={"mail": 2.0}).seconds_to_drain == 15.0


@pytest.mark.parametrize(
    ("live", "arrival"),
    [(100, 2.0), (40, 3.0), (160, 1.0), (1000, 0.0)],
    ids=["as many as before", "more", "fewer", "far fewer, as after a purge"],
)
def test_what_arrives_is_what_ends_and_what_there_is_more_of(live, arrival):
    found = one({"ready": 60, "leased": 40}, rates={"mail": 2.0}, before=EarlierCounts(60.0, {"mail": live}))
    assert found.arrival_rate == arrival


def test_a_queue_that_is_new_counts_from_nothing():
    assert one({"ready": 60}, rates={}, before=EarlierCounts(60.0, {})).arrival_rate == 1.0


def test_a_moment_ago_says_nothing_about_arrivals():
    assert one({"ready": 60}, rates={}, before=EarlierCounts(0.5, {})).arrival_rate is None


def test_a_queue_that_is_empty_but_worked_on_is_told_too():
    (found,) = queue_signals({}, {}, {"mail": 5.0}, EarlierCounts(60.0, {"mail": 0}))
    assert (found.queue, found.ready, found.service_rate, found.arrival_rate) == ("mail", 0, 5.0, 5.0)
