"""Ticks at clock changes: the examples of the documentation, one by one."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tenure.cron.schedule import Daylight, Ticks
from tenure.definition.cron_expression import CronExpression
from tenure.errors import InvalidSchedule

FORWARD = datetime(2026, 3, 8, 5, 1, tzinfo=UTC)  # New York, 00:01 on the day without 02:00 to 02:59
BACK = datetime(2026, 11, 1, 4, 1, tzinfo=UTC)  # New York, 00:01 on the day with 01:00 to 01:59 twice


def local(expression, begin, hours=6, daylight=None, zone="America/New_York"):
    ticks = Ticks(CronExpression(expression), ZoneInfo(zone), daylight)
    found = ticks.between(begin, begin + timedelta(hours=hours))
    return [f"{tick.astimezone(ZoneInfo(zone)):%H:%M%z}" for tick in found]


def test_a_fixed_time_that_is_missing_runs_when_the_clock_has_jumped():
    assert local("30 2 * * *", FORWARD) == ["03:00-0400"]


def test_several_missing_times_are_one_tick():
    assert local("0,15,30 2,3 * * *", FORWARD) == ["03:00-0400", "03:15-0400", "03:30-0400"]


def test_a_fixed_time_that_is_shown_twice_runs_once():
    assert local("30 1 * * *", BACK) == ["01:30-0400"]


def test_a_wildcard_follows_real_time_through_the_repeated_hour():
    assert local("*/30 * * * *", BACK, 3) == [
        *("00:30-0400", "01:00-0400", "01:30-0400", "01:00-0500", "01:30-0500", "02:00-0500")
    ]


def test_a_wildcard_does_not_make_up_for_a_missing_hour():
    assert local("0 * * * *", FORWARD, 3) == ["01:00-0500", "03:00-0400", "04:00-0400"]


def test_a_missing_time_may_be_skipped():
    assert local("30 2 * * *", FORWARD, daylight=Daylight(missing="skip")) == []


def test_a_wildcard_may_make_up_for_missing_times():
    assert local("*/20 2 * * *", FORWARD, daylight=Daylight(missing="after")) == ["03:00-0400"]


@pytest.mark.parametrize(
    ("repeated", "expected"),
    [("first", ["01:30-0400"]), ("second", ["01:30-0500"]), ("both", ["01:30-0400", "01:30-0500"])],
)
def test_a_repeated_time_may_run_the_first_time_the_second_time_or_both(repeated, expected):
    assert local("30 1 * * *", BACK, daylight=Daylight(repeated=repeated)) == expected


def test_a_clock_that_jumps_by_half_an_hour_is_no_exception():
    begin = datetime(2026, 10, 3, 14, 31, tzinfo=UTC)  # Lord Howe, from 02:00 to 02:30

    assert local("15 2 * * *", begin, zone="Australia/Lord_Howe") == ["02:30+1100"]


def test_a_day_that_was_left_out_runs_at_the_start_of_the_next():
    begin = datetime(2011, 12, 30, 9, 0, tzinfo=UTC)  # Apia, one hour before 30 December did not happen

    assert local("0 12 * * *", begin, 36, zone="Pacific/Apia") == ["00:00+1400", "12:00+1400"]


def test_a_moment_is_a_tick_or_not():
    ticks = Ticks(CronExpression("0 * * * *"), ZoneInfo("UTC"))

    assert ticks.at(datetime(2026, 1, 1, 5, tzinfo=UTC))
    assert not ticks.at(datetime(2026, 1, 1, 5, 1, tzinfo=UTC))


def test_an_unknown_policy_is_refused():
    with pytest.raises(InvalidSchedule, match="repeated must be one of auto, first, second, both, got 'never'"):
        Daylight(repeated="never")
