"""Previews: the ticks to come, and what a change of the clock does to them."""

import re
from datetime import UTC, datetime

from tenure.cron.describe import around_change, next_change, upcoming


def shown(occasions):
    return [(f"{each.local:%m-%d %H:%M%z}", each.note) for each in occasions]


def test_the_next_ticks_are_told_by_the_clock_of_the_zone(schedule, at):
    assert shown(upcoming(schedule("0 2 * * *", timezone="Asia/Tokyo"), at(1, 1), 2)) == [
        ("01-02 02:00+0900", None),
        ("01-03 02:00+0900", None),
    ]


def test_a_tick_in_place_of_a_missing_time_says_so(schedule, at):
    found = around_change(schedule("30 2 * * *", timezone="Europe/Berlin"), at(3, 1), 1)

    assert shown(found) == [
        ("03-28 02:30+0100", None),
        ("03-29 03:00+0200", "the clock goes forward from 02:00 to 03:00"),
        ("03-29 03:00+0200", "instead of 02:30, which is missing that day"),
    ]


def test_the_two_runs_of_a_repeated_time_are_told_apart(schedule, at):
    found = around_change(schedule("30 * * * *", timezone="Europe/Berlin"), at(9, 1), 1)

    assert shown(found) == [
        ("10-25 02:30+0200", "the first of two 02:30"),
        ("10-25 02:00+0100", "the clock goes back from 03:00 to 02:00"),
        ("10-25 02:30+0100", "the second of two 02:30"),
    ]


def test_a_zone_whose_clock_never_changes_has_nothing_around_a_change(schedule, at):
    assert around_change(schedule(timezone="Asia/Tokyo"), at(1, 1), 3) == []
    assert next_change(schedule(timezone="UTC"), at(1, 1)) is None


def test_a_schedule_that_ends_has_fewer_ticks_to_come(schedule, at):
    assert len(upcoming(schedule("@hourly", ends_at=datetime(2026, 1, 1, 3, tzinfo=UTC)), at(1, 1), 10)) == 2


def test_the_jitter_of_a_tick_is_told(schedule, at):
    ((_, note),) = shown(upcoming(schedule("@daily", jitter=600.0), at(1, 1), 1))

    assert re.fullmatch(r"with its jitter at 00:0\d:\d\d", note)
