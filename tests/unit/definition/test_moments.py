"""Moments as users write them: datetimes, epoch seconds, ISO text and phrases."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.clock import to_microseconds
from tenure.definition.moment import check_moment, to_instant
from tenure.errors import InvalidJob

MADRID = ZoneInfo("Europe/Madrid")
NOW = datetime(2026, 3, 4, 10, 30, 15, tzinfo=MADRID)  # a Wednesday


def read(value, zone="Europe/Madrid", now=NOW):
    return to_instant(value, "at", to_microseconds(now), zone)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (datetime(2030, 1, 1, 9, tzinfo=MADRID), datetime(2030, 1, 1, 8, tzinfo=UTC)),
        ("2030-01-01T09:00:00+02:00", datetime(2030, 1, 1, 7, tzinfo=UTC)),
        ("2030-01-01T09:00:00Z", datetime(2030, 1, 1, 9, tzinfo=UTC)),
        (1893456000, datetime(2030, 1, 1, tzinfo=UTC)),
        (1893456000.5, datetime(2030, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)),
    ],
)
def test_an_instant_is_converted_to_utc_at_once(value, wanted):
    assert check_moment(value, "at") == wanted
    assert read(value) == wanted


@pytest.mark.parametrize(
    ("phrase", "wanted"),
    [
        ("now", NOW),
        ("in 10 minutes", NOW + timedelta(minutes=10)),
        ("In 1h 30m", NOW + timedelta(minutes=90)),
        ("+2 hours", NOW + timedelta(hours=2)),
        ("+90s", NOW + timedelta(seconds=90)),
        ("2 days from now", NOW + timedelta(days=2)),
        ("noon", datetime(2026, 3, 4, 12, tzinfo=MADRID)),
        ("midnight", datetime(2026, 3, 5, tzinfo=MADRID)),
        ("09:00", datetime(2026, 3, 5, 9, tzinfo=MADRID)),
        ("at 11:00", datetime(2026, 3, 4, 11, tzinfo=MADRID)),
        ("today 09:00", datetime(2026, 3, 4, 9, tzinfo=MADRID)),
        ("tomorrow", datetime(2026, 3, 5, tzinfo=MADRID)),
        ("tomorrow 09:00", datetime(2026, 3, 5, 9, tzinfo=MADRID)),
        ("Tomorrow at 9 am", datetime(2026, 3, 5, 9, tzinfo=MADRID)),
        ("9am tomorrow", datetime(2026, 3, 5, 9, tzinfo=MADRID)),
        ("next monday 8am", datetime(2026, 3, 9, 8, tzinfo=MADRID)),
        ("friday 17:00", datetime(2026, 3, 6, 17, tzinfo=MADRID)),
        ("on fri, 5 pm", datetime(2026, 3, 6, 17, tzinfo=MADRID)),
        ("wednesday 11:00", datetime(2026, 3, 4, 11, tzinfo=MADRID)),
        ("wednesday 10:00", datetime(2026, 3, 11, 10, tzinfo=MADRID)),
        ("next wednesday 11:00", datetime(2026, 3, 11, 11, tzinfo=MADRID)),
        ("2030-01-01 09:00", datetime(2030, 1, 1, 9, tzinfo=MADRID)),
        ("2030-01-01", datetime(2030, 1, 1, tzinfo=MADRID)),
        ("2030-01-01T09:00 America/New_York", datetime(2030, 1, 1, 14, tzinfo=UTC)),
        ("tomorrow 09:00 UTC", datetime(2026, 3, 5, 9, tzinfo=UTC)),
        ("tomorrow Asia/Tokyo", datetime(2026, 3, 4, 15, tzinfo=UTC)),
    ],
)
def test_a_phrase_counts_from_now_in_the_time_zone(phrase, wanted):
    assert check_moment(phrase, "at") == phrase  # kept as it is until the job is enqueued
    assert read(phrase) == wanted


def test_a_local_time_that_a_clock_change_skips_or_repeats_means_one_instant():
    spring, autumn = datetime(2026, 3, 28, tzinfo=MADRID), datetime(2026, 10, 24, tzinfo=MADRID)

    assert read("tomorrow 02:30", now=spring) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert read("tomorrow 02:30", now=autumn) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "at", "soon", "10m", "9", "next", "next week", "next noon", "monday tuesday", "in soon"),
        *("tomorrow 25:00", "2030-13-01", "tomorrow Mars/Base", "2030-01-01T09:00+01:00 Europe/Madrid"),
        "9999-12-31T23:59 Etc/GMT+12",
    ],
)
def test_other_text_is_refused_when_the_option_is_given(text):
    with pytest.raises(InvalidJob):
        check_moment(text, "at")


@pytest.mark.parametrize("value", [None, True, timedelta(1), b"now", float("nan"), float("inf")])
def test_other_values_are_refused(value):
    with pytest.raises(InvalidJob):
        check_moment(value, "at")


def test_the_error_names_the_forms():
    with pytest.raises(InvalidJob, match=r'"in 10 minutes", "tomorrow 09:00", "next monday 8am"'):
        check_moment("whenever", "at")


def test_a_small_number_is_refused_with_a_word_about_delay():
    with pytest.raises(InvalidJob, match="write delay=600 for seconds from now"):
        check_moment(600, "at")


def test_milliseconds_are_refused():
    with pytest.raises(InvalidJob, match="takes seconds since 1970"):
        check_moment(1893456000000, "at")


def test_a_datetime_without_a_time_zone_is_still_refused():
    with pytest.raises(InvalidJob, match="tzinfo=UTC"):
        check_moment(datetime(2030, 1, 1), "at")


@given(st.text(max_size=120))
def test_any_text_is_either_a_moment_or_refused(text):
    try:
        checked = check_moment(text, "at")
    except InvalidJob:
        return
    assert read(checked).tzinfo is UTC
