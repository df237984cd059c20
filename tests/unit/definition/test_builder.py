"""The fluent builder: every method, and the cron expressions of its frequency helpers."""

from datetime import UTC, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tenure import Backoff, Job, JobBuilder
from tenure.errors import InvalidJob

NOON = datetime(2030, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def dispatched():
    return []


@pytest.fixture
def builder(dispatched):
    def dispatch(job, backend):
        dispatched.append((job, backend))
        return "id-1"

    return JobBuilder(Job(handler="report", payload={"month": 6}), dispatch)


def test_build_gives_the_frozen_job(builder):
    assert builder.build() == Job(handler="report", payload={"month": 6})


@pytest.mark.parametrize(
    ("method", "arguments", "field", "value"),
    [
        ("named", ("monthly",), "name", "monthly"),
        ("queue", ("slow",), "queue", "slow"),
        ("priority", (8,), "priority", 8),
        ("priority", ("high",), "priority", 8),
        ("max_retries", (3,), "max_retries", 3),
        ("timeout", ("2m",), "timeout", 120.0),
        ("timeout", (None,), "timeout", None),
        ("scheduled_at", (NOON,), "at", NOON),
        ("delay", (timedelta(minutes=1),), "delay", 60.0),
        ("expires_at", (NOON,), "expires_at", NOON),
        ("single_instance", (), "single_instance", True),
        ("single_instance", (False,), "single_instance", False),
        ("idempotency_key", ("order-7",), "idempotency_key", "order-7"),
        ("backoff", ("none",), "backoff", Backoff(strategy="none")),
        ("backoff", (Backoff(base=1.0),), "backoff", Backoff(base=1.0)),
        ("environments", ("staging", "production"), "environments", ("staging", "production")),
        ("environments", (["staging", "production"],), "environments", ("staging", "production")),
        ("depends_on", ("export", "import"), "depends_on", ("export", "import")),
        ("depends_on", (["export", "import"],), "depends_on", ("export", "import")),
        ("depends_on", ("export", ["import"]), "depends_on", ("export", "import")),
        ("tags", ("billing", "nightly"), "tags", ("billing", "nightly")),
        ("tags", (["billing", "nightly"],), "tags", ("billing", "nightly")),
        ("enabled", (), "enabled", True),
        ("enabled", (False,), "enabled", False),
        ("disable", (), "enabled", False),
    ],
)
def test_each_word_sets_its_field_and_can_be_chained(builder, method, arguments, field, value):
    returned = getattr(builder, method)(*arguments)

    assert returned is builder
    assert getattr(builder.build(), field) == value


def test_options_takes_any_of_the_options(builder):
    job = builder.options(queue="slow", priority="low", timeout="1m").build()

    assert (job.queue, job.priority, job.timeout) == ("slow", 2, 60.0)


def test_meta_is_gathered_key_by_key(builder):
    assert builder.meta(tenant="a").meta(trace="b").build().meta == {"tenant": "a", "trace": "b"}


def test_dispatch_sends_the_job_and_gives_its_id(builder, dispatched):
    id = builder.named("monthly").dispatch()

    assert id == "id-1"
    assert dispatched == [(Job(handler="report", payload={"month": 6}, name="monthly"), None)]


def test_dispatch_may_name_another_backend(builder, dispatched):
    builder.dispatch("memory://")

    assert dispatched[0][1] == "memory://"


def test_a_job_has_no_expression_until_a_frequency_is_chosen(builder):
    assert builder.build().cron is None


@pytest.mark.parametrize(
    ("method", "arguments", "expression"),
    [
        ("every_minute", (), "* * * * *"),
        ("every_minute", (1,), "* * * * *"),
        ("every_minute", (7,), "*/7 * * * *"),
        ("every_x_minutes", (45,), "*/45 * * * *"),
        ("hourly", (), "0 * * * *"),
        ("hourly_at", (17,), "17 * * * *"),
        ("daily", (), "0 0 * * *"),
        ("daily_at", ("02:00",), "0 2 * * *"),
        ("daily_at", ("4:08 pm",), "8 16 * * *"),
        ("weekly", (), "0 0 * * 0"),
        ("monthly", (), "0 0 1 * *"),
        ("quarterly", (), "0 0 1 */3 *"),
        ("yearly", (), "0 0 1 1 *"),
        ("cron", ("15 2 * * 1-5",), "15 2 * * 1-5"),
        ("daily", ("03:05",), "5 3 * * *"),
        ("weekly", ("03:05",), "5 3 * * 0"),
        ("monthly", ("03:05",), "5 3 1 * *"),
        ("quarterly", ("03:05",), "5 3 1 */3 *"),
        ("yearly", ("03:05",), "5 3 1 1 *"),
        ("hourly", (30,), "30 * * * *"),
        ("every_hour", (), "0 * * * *"),
        ("every_hour", (2,), "0 */2 * * *"),
        ("every_hour", (2, 15), "15 */2 * * *"),
        ("every_five_minutes", (), "*/5 * * * *"),
        ("every_fifteen_minutes", (), "*/15 * * * *"),
        ("every_thirty_minutes", (), "*/30 * * * *"),
        ("between_hours", (9, 17), "* 9-17 * * *"),
        ("hours", ([9, 12, 17],), "* 9,12,17 * * *"),
        ("hours", (9,), "* 9 * * *"),
        ("between_minutes", (10, 20), "10-20 * * * *"),
        ("minutes", ([0, 30],), "0,30 * * * *"),
        ("days", (3,), "0 0 * * 3"),
        ("days", ([1, 3, 5],), "0 0 * * 1,3,5"),
        ("sundays", (), "0 0 * * 0"),
        ("mondays", (), "0 0 * * 1"),
        ("tuesdays", (), "0 0 * * 2"),
        ("wednesdays", (), "0 0 * * 3"),
        ("thursdays", (), "0 0 * * 4"),
        ("fridays", (), "0 0 * * 5"),
        ("saturdays", (), "0 0 * * 6"),
        ("mondays", ("06:30",), "30 6 * * 1"),
        ("weekdays", (), "0 0 * * 1-5"),
        ("weekdays", ("07:00",), "0 7 * * 1-5"),
        ("weekends", (), "0 0 * * 6-7"),
        ("weekends", ("10:15",), "15 10 * * 6-7"),
        ("days_of_month", ([1, 15],), "0 0 1,15 * *"),
        ("days_of_month", (31,), "0 0 31 * *"),
        ("months", ([1, 7],), "0 0 * 1,7 *"),
        ("months", (12,), "0 0 * 12 *"),
    ],
)
def test_a_frequency_helper_gives_its_expression_from_a_fresh_builder(builder, method, arguments, expression):
    returned = getattr(builder, method)(*arguments)

    assert returned is builder
    assert builder.build().cron == expression


def test_weekly_then_daily_at_keeps_the_weekday(builder):
    assert builder.weekly().daily_at("03:00").build().cron == "0 3 * * 0"


def test_daily_at_then_weekly_keeps_the_time(builder):
    assert builder.daily_at("03:00").weekly().build().cron == "0 3 * * 0"


def test_monthly_then_daily_stays_monthly(builder):
    assert builder.monthly().daily().build().cron == "0 0 1 * *"


def test_daily_at_then_every_x_minutes_keeps_the_hour(builder):
    assert builder.daily_at("02:00").every_x_minutes(5).build().cron == "*/5 2 * * *"


def test_daily_at_then_hourly_runs_every_hour(builder):
    assert builder.daily_at("02:00").hourly().build().cron == "0 * * * *"


def test_daily_at_then_hourly_at_runs_every_hour(builder):
    assert builder.daily_at("02:00").hourly_at(15).build().cron == "15 * * * *"


def test_hours_and_minutes_compose_field_by_field(builder):
    cron = builder.between_hours(9, 17).minutes([0, 30]).days([1, 2]).months(6).build().cron

    assert cron == "0,30 9-17 * 6 1,2"


def test_hours_past_midnight_are_written_as_two_ranges(builder):
    assert builder.between_hours(22, 6).build().cron == "* 22-23,0-6 * * *"


def test_cron_replaces_every_field_set_before(builder):
    assert builder.weekly().cron("5 4 * * *").build().cron == "5 4 * * *"


def test_a_helper_after_cron_overwrites_only_its_fields(builder):
    assert builder.cron("5 4 1 2 3").daily_at("06:00").build().cron == "0 6 1 2 3"


@pytest.mark.parametrize(
    ("nickname", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        (" @Daily ", "0 0 * * *"),
    ],
)
def test_cron_knows_the_nicknames(builder, nickname, expression):
    assert builder.cron(nickname).build().cron == expression


@pytest.mark.parametrize(("expression", "count"), [("", 0), ("* * * *", 4), ("* * * * * *", 6), ("@reboot", 1)])
def test_an_expression_without_five_fields_is_refused_with_the_five(builder, expression, count):
    with pytest.raises(InvalidJob, match=f"has {count} fields; it needs five: minute hour day-of-month month day-of-"):
        builder.cron(expression)


@pytest.mark.parametrize(
    ("phrase", "expression"),
    [
        ("00:00", "0 0 * * *"),
        ("23:59", "59 23 * * *"),
        ("7:05", "5 7 * * *"),
        ("noon", "0 12 * * *"),
        ("Midnight", "0 0 * * *"),
        ("4pm", "0 16 * * *"),
        ("4:08pm", "8 16 * * *"),
        ("4:08 PM", "8 16 * * *"),
        ("12:30 am", "30 0 * * *"),
        ("12 pm", "0 12 * * *"),
        (" 02:00 ", "0 2 * * *"),
    ],
)
def test_a_time_of_day_may_be_a_phrase(builder, phrase, expression):
    assert builder.daily_at(phrase).build().cron == expression


@pytest.mark.parametrize(
    "phrase",
    [
        "",
        "25:00",
        "12:60",
        "13:00 pm",
        "0:30 am",
        "later",
        "7",
        "7:5",
        "02:00:00",
        "-1:00",
        "1\N{ARABIC-INDIC DIGIT FIVE}:00",
    ],
)
def test_text_that_is_no_time_of_day_is_refused_with_examples(builder, phrase):
    with pytest.raises(InvalidJob, match=f'{phrase!r} is not a time of day; write it as "02:00", "4:08 pm", "noon"'):
        builder.daily_at(phrase)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("every_minute", (0,), "minutes must be a whole number from 1 to 59, got 0"),
        ("every_x_minutes", (60,), "minutes must be a whole number from 1 to 59, got 60"),
        ("every_x_minutes", ("5",), "minutes must be a whole number from 1 to 59, got '5'"),
        ("hourly", (60,), "minute must be a whole number from 0 to 59, got 60"),
        ("hourly_at", (-1,), "minute must be a whole number from 0 to 59, got -1"),
        ("every_hour", (24,), "hours must be a whole number from 1 to 23, got 24"),
        ("every_hour", (2, 60), "minute must be a whole number from 0 to 59, got 60"),
        ("between_hours", (0, 24), "hour must be a whole number from 0 to 23, got 24"),
        ("hours", ([1, 24],), "hour must be a whole number from 0 to 23, got 24"),
        ("between_minutes", (0, 60), "minute must be a whole number from 0 to 59, got 60"),
        ("minutes", ([1.5],), "minute must be a whole number from 0 to 59, got 1.5"),
        ("days", (7,), "day of the week must be a whole number from 0 to 6, got 7"),
        ("days", ([],), "day of the week needs at least one value"),
        ("days_of_month", (0,), "day of the month must be a whole number from 1 to 31, got 0"),
        ("days_of_month", (32,), "day of the month must be a whole number from 1 to 31, got 32"),
        ("months", (13,), "month must be a whole number from 1 to 12, got 13"),
        ("months", (True,), "month must be a whole number from 1 to 12, got True"),
    ],
)
def test_a_value_outside_its_field_is_refused_by_name(builder, method, arguments, message):
    with pytest.raises(InvalidJob, match=message):
        getattr(builder, method)(*arguments)


def test_a_refused_helper_leaves_the_builder_as_it_was(builder):
    builder.daily_at("02:00")

    with pytest.raises(InvalidJob):
        builder.weekly("late")

    assert builder.build().cron == "0 2 * * *"


def test_a_time_of_day_may_be_a_time(builder):
    assert builder.daily_at(time(16, 8)).build().cron == "8 16 * * *"


def test_the_zone_of_a_time_is_obeyed(builder):
    job = builder.daily_at(time(9, 30, tzinfo=ZoneInfo("Asia/Tokyo"))).build()
    assert (job.cron, job.timezone) == ("30 9 * * *", "Asia/Tokyo")
    assert builder.weekdays(time(9, tzinfo=UTC), timezone="UTC").build().timezone == "UTC"


@pytest.mark.parametrize(
    ("zone", "named", "message"),
    [
        (timezone(timedelta(hours=9)), None, "has a time zone without a name; write the time without it"),
        (ZoneInfo("Asia/Tokyo"), "Europe/Madrid", "is in the time zone 'Asia/Tokyo', but timezone is 'Europe/Madrid'"),
    ],
)
def test_a_zone_of_a_time_that_cannot_be_obeyed_is_refused_and_changes_nothing(builder, zone, named, message):
    with pytest.raises(InvalidJob, match=message):
        builder.daily(time(9, tzinfo=zone), timezone=named)
    assert (builder.build().cron, builder.build().timezone) == (None, None)


@pytest.mark.parametrize(
    ("expression", "field"), [("61 * * * *", "minute"), ("0 0 * * MON-SAN", "day-of-week"), ("0 25 * * *", "hour")]
)
def test_cron_names_the_field_at_fault(builder, expression, field):
    with pytest.raises(InvalidJob, match=f"has the {field} field"):
        builder.cron(expression)


def test_words_that_never_come_together_are_refused(builder):
    builder.months(2)

    with pytest.raises(InvalidJob, match="never matches"):
        builder.days_of_month(31)


@pytest.mark.parametrize(
    "word",
    [
        *("daily", "daily_at", "weekly", "monthly", "quarterly", "yearly", "weekdays", "weekends"),
        *("sundays", "mondays", "tuesdays", "wednesdays", "thursdays", "fridays", "saturdays"),
    ],
)
def test_a_time_of_day_may_name_its_zone(builder, word):
    job = getattr(builder, word)("02:00", timezone="Europe/Madrid").build()

    assert job.timezone == "Europe/Madrid"
    assert job.cron.startswith("0 2 ")


def test_an_expression_may_name_its_zone(builder):
    assert builder.cron("0 2 * * *", timezone="Asia/Tokyo").build().timezone == "Asia/Tokyo"


def test_a_word_without_a_zone_leaves_the_zone(builder):
    assert builder.timezone("Asia/Tokyo").daily_at("02:00").build().timezone == "Asia/Tokyo"


def test_an_unknown_zone_is_refused_and_changes_nothing(builder):
    with pytest.raises(InvalidJob, match="'Asia/Tokio' is not a time zone; did you mean 'Asia/Tokyo'"):
        builder.daily_at("02:00", timezone="Asia/Tokio")

    assert builder.build().cron is None


def test_the_words_go_on_from_the_expression_of_the_job():
    builder = JobBuilder(Job(handler="report", cron="0 0 * * 1"), lambda job, backend: "")

    assert builder.daily_at("03:00").build().cron == "0 3 * * 1"
