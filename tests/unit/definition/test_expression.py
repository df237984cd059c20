"""Cron expressions: what is accepted, what is refused and which field is named, and the search for labels."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.definition.cron_expression import CronExpression, nearest_weekday
from tenure.errors import InvalidJob, InvalidSchedule

NEW_YEAR = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("expression", "field", "at_fault"),
    [
        ("60 * * * *", "minute", "60"),
        ("-1 * * * *", "minute", "-1"),
        ("5-1 * * * *", "minute", "5-1"),
        ("*/0 * * * *", "minute", "*/0"),
        ("*/60 * * * *", "minute", "*/60"),
        ("1,,2 * * * *", "minute", "1,,2"),
        ("x * * * *", "minute", "x"),
        ("٣ * * * *", "minute", "٣"),
        ("5/99999999999999999999 * * * *", "minute", "5/99999999999999999999"),
        ("0 24 * * *", "hour", "24"),
        ("0 */24 * * *", "hour", "*/24"),
        ("0 0 0 * *", "day-of-month", "0"),
        ("0 0 32 * *", "day-of-month", "32"),
        ("0 0 32W * *", "day-of-month", "32W"),
        ("0 0 0W * *", "day-of-month", "0W"),
        ("0 0 L-3 * *", "day-of-month", "L-3"),
        ("0 0 1 13 *", "month", "13"),
        ("0 0 1 JANUARY *", "month", "JANUARY"),
        ("0 0 * * 8", "day-of-week", "8"),
        ("0 0 * * FRI-MON", "day-of-week", "FRI-MON"),
        ("0 0 * * 1#6", "day-of-week", "1#6"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(expression, field, at_fault):
    with pytest.raises(InvalidSchedule) as refused:
        CronExpression(expression)

    assert f"{expression!r} has the {field} field {at_fault!r}, which cannot be read; it takes " in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    ["0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6,9,11 *", "0 0 31W 2 *", "0 0 30,31 2 *", "0 0 */31 * 1#5"],
)
def test_an_expression_that_can_never_come_is_refused(expression):
    with pytest.raises(InvalidSchedule, match="never matches"):
        CronExpression(expression)


def test_an_expression_of_unreasonable_length_is_refused():
    with pytest.raises(InvalidSchedule, match="longer than 256 characters"):
        CronExpression("1" * 5000 + " * * * *")


def test_a_refusal_is_an_invalid_job_too():
    assert issubclass(InvalidSchedule, InvalidJob)


@pytest.mark.parametrize(
    ("expression", "first", "second"),
    [
        ("*/45 * * * *", "2026-01-01 00:45", "2026-01-01 01:00"),
        ("0 0 29 2 *", "2028-02-29 00:00", "2032-02-29 00:00"),
        ("0 0 * FEB MON#5", "2044-02-29 00:00", "2072-02-29 00:00"),
        ("0 0 L * *", "2026-01-31 00:00", "2026-02-28 00:00"),
        ("0 0 LW * *", "2026-01-30 00:00", "2026-02-27 00:00"),
        ("0 0 15W * *", "2026-01-15 00:00", "2026-02-16 00:00"),
        ("0 0 1W,31W * *", "2026-01-30 00:00", "2026-02-02 00:00"),
        ("0 0 15W,31 2 *", "2026-02-16 00:00", "2027-02-15 00:00"),
        ("0 0 15w * fri", "2026-01-02 00:00", "2026-01-09 00:00"),
        ("0 0 * * 5L", "2026-01-30 00:00", "2026-02-27 00:00"),
        ("0 0 * * 7", "2026-01-04 00:00", "2026-01-11 00:00"),
        ("0 0 13 * 5", "2026-01-02 00:00", "2026-01-09 00:00"),
        ("0 0 */2 * 5", "2026-01-09 00:00", "2026-01-23 00:00"),
        ("@hourly", "2026-01-01 01:00", "2026-01-01 02:00"),
    ],
)
def test_labels_are_found_forwards_and_backwards(expression, first, second):
    found = CronExpression(expression)

    labels = found.after(NEW_YEAR), found.after(found.after(NEW_YEAR))

    assert [f"{label:%Y-%m-%d %H:%M}" for label in labels] == [first, second]
    assert found.before(labels[1]) == labels[0]


def test_seconds_do_not_hide_the_label_of_their_minute():
    every = CronExpression("* * * * *")

    assert every.before(datetime(2026, 1, 1, 0, 0, 30)) == NEW_YEAR
    assert every.after(datetime(2026, 1, 1, 0, 0, 30)) == datetime(2026, 1, 1, 0, 1)


def test_the_calendar_ends():
    assert CronExpression("0 0 1 1 *").after(datetime(9999, 6, 1)) is None
    assert CronExpression("0 0 1 1 *").before(datetime(1, 1, 1)) is None


@pytest.mark.parametrize(
    ("expression", "is_fixed"),
    [
        ("0 2 * * *", True),
        ("0,30 1-3 * * *", True),
        ("*/5 2 * * *", False),
        ("0 * * * *", False),
        ("0 */2 * * *", False),
    ],
)
def test_an_expression_is_fixed_when_it_names_its_minutes_and_hours(expression, is_fixed):
    assert CronExpression(expression).is_fixed is is_fixed


@pytest.mark.parametrize(
    ("month", "day", "expected"),
    [
        (date(2026, 8, 1), 1, date(2026, 8, 3)),  # a Saturday, and July is another month
        (date(2026, 5, 1), 31, date(2026, 5, 29)),  # a Sunday, and June is another month
        (date(2026, 8, 1), 15, date(2026, 8, 14)),
        (date(2026, 8, 1), 16, date(2026, 8, 17)),
        (date(2026, 8, 1), 19, date(2026, 8, 19)),
        (date(2026, 2, 1), 30, None),
    ],
)
def test_the_nearest_weekday_stays_in_its_month(month, day, expected):
    assert nearest_weekday(month, day) == expected


@given(st.lists(st.text("0123456789*/,-#LW?@JANSU ", max_size=6), min_size=5, max_size=5))
def test_whatever_is_written_is_read_or_refused_in_words(fields):
    try:
        found = CronExpression(" ".join(fields))
    except InvalidSchedule:
        return
    assert found.after(NEW_YEAR) is not None
