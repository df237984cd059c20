"""Missed ticks: which of them each policy runs, and which it drops."""

import time

import pytest

from tenure.cron.decision import CatchUp, catch_up
from tenure.cron.schedule import Misfire
from tenure.errors import InvalidSchedule


def test_nothing_is_due_before_the_next_tick(schedule, at):
    assert catch_up(schedule("@hourly"), at(1, 1, 5), at(1, 1, 5, 59, 59)) == CatchUp((), None, at(1, 1, 5))


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_a_tick_on_time_runs_under_every_policy(schedule, at, policy):
    found = catch_up(schedule("@hourly", misfire=Misfire(policy)), at(1, 1, 5), at(1, 1, 6))

    assert found == CatchUp((at(1, 1, 6),), None, at(1, 1, 6))


def test_skip_runs_a_tick_that_is_up_to_a_minute_late(schedule, at):
    assert catch_up(schedule("@hourly"), at(1, 1, 5), at(1, 1, 6, 1)).run == (at(1, 1, 6),)


def test_skip_drops_a_tick_that_is_later_than_its_grace(schedule, at):
    found = catch_up(schedule("@hourly"), at(1, 1, 5), at(1, 1, 6, 1, 1))

    assert found == CatchUp((), (at(1, 1, 6), at(1, 1, 6)), at(1, 1, 6))


def test_skip_takes_another_grace(schedule, at):
    found = catch_up(schedule("@hourly", misfire=Misfire(grace=7200.0)), at(1, 1), at(1, 1, 6))

    assert found.run == (at(1, 1, 4), at(1, 1, 5), at(1, 1, 6))
    assert found.dropped == (at(1, 1, 1), at(1, 1, 3))


def test_latest_runs_the_last_missed_tick_however_late(schedule, at):
    found = catch_up(schedule("@hourly", misfire=Misfire("latest")), at(1, 1), at(2, 10, 5, 30))

    assert found == CatchUp((at(2, 10, 5),), (at(1, 1, 1), at(2, 10, 4)), at(2, 10, 5))


def test_all_runs_every_missed_tick_the_oldest_first(schedule, at):
    found = catch_up(schedule("@hourly", misfire=Misfire("all")), at(1, 1), at(1, 1, 3, 30))

    assert found == CatchUp((at(1, 1, 1), at(1, 1, 2), at(1, 1, 3)), None, at(1, 1, 3))


def test_all_is_bounded_by_count(schedule, at):
    found = catch_up(schedule("@hourly", misfire=Misfire("all", limit=2)), at(1, 1), at(1, 1, 5))

    assert found.run == (at(1, 1, 4), at(1, 1, 5))
    assert found.dropped == (at(1, 1, 1), at(1, 1, 3))


def test_all_is_bounded_by_age(schedule, at):
    found = catch_up(schedule("@hourly", misfire=Misfire("all", age=3600.0)), at(1, 1), at(1, 1, 5))

    assert found.run == (at(1, 1, 4), at(1, 1, 5))


def test_a_tick_that_waits_for_its_jitter_is_not_due_yet(schedule, at):
    found = schedule("@hourly", jitter=1800.0)
    due = found.due_at(at(1, 1, 5))

    assert catch_up(found, at(1, 1, 4), due - 1).run == ()
    assert catch_up(found, at(1, 1, 4), due).run == (at(1, 1, 5),)


def test_lateness_counts_from_the_jittered_time(schedule, at):
    found = schedule("@hourly", jitter=1800.0)
    due = found.due_at(at(1, 1, 5))

    assert catch_up(found, at(1, 1, 4), due + 60_000_000).run == (at(1, 1, 5),)
    assert catch_up(found, at(1, 1, 4), due + 60_000_001).run == ()


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_ten_years_of_missed_minutes_are_decided_at_once(schedule, at, policy):
    begun = time.thread_time()
    found = catch_up(schedule("* * * * *", misfire=Misfire(policy)), at(1, 1) - 315_360_000_000_000, at(1, 1))

    assert found.dropped is not None
    assert time.thread_time() - begun < 1


def test_a_clock_that_went_back_makes_nothing_due(schedule, at):
    assert catch_up(schedule("@hourly", misfire=Misfire("all")), at(1, 2), at(1, 1)).run == ()


@pytest.mark.parametrize(
    ("fields", "message"), [(("never",), "must be one of skip, latest, all"), (("all", 60.0, 0), "limit")]
)
def test_a_wrong_policy_is_refused(fields, message):
    with pytest.raises(InvalidSchedule, match=message):
        Misfire(*fields)
