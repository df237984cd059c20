"""Time zones by name."""

from datetime import UTC, datetime

import pytest

from tenure.definition import cron_expression
from tenure.definition.cron_expression import find_zone
from tenure.errors import InvalidSchedule


def test_a_zone_is_found_by_its_name():
    assert find_zone("Europe/Madrid").tzname(datetime(2026, 7, 1)) == "CEST"


@pytest.mark.parametrize("name", ["Europe/Madird", "Europe", "", "../etc/passwd", "/etc/localtime", "Mars/Olympus", 5])
def test_what_is_no_zone_is_refused(name):
    with pytest.raises(InvalidSchedule, match="is not a time zone"):
        find_zone(name)


def test_a_slip_is_answered_with_the_names_like_it():
    with pytest.raises(InvalidSchedule, match="did you mean 'Europe/Madrid'"):
        find_zone("Europe/Madird")


@pytest.fixture
def no_database(monkeypatch):
    def missing(name):
        raise KeyError(name)

    monkeypatch.setattr(cron_expression, "ZoneInfo", missing)
    monkeypatch.setattr(cron_expression, "available_timezones", set)


@pytest.mark.usefixtures("no_database")
def test_utc_needs_no_database():
    assert find_zone("UTC") is UTC


@pytest.mark.usefixtures("no_database")
def test_a_missing_database_is_named():
    with pytest.raises(InvalidSchedule, match="no time zone database here: install tzdata"):
        find_zone("Europe/Madrid")
