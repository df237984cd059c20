"""Schedules of `every(...)`: their ticks, what happens to missed ones, and how they are described."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import Job
from tenure.clock import to_microseconds
from tenure.cron.builder import ScheduleBuilder
from tenure.cron.decision import catch_up, plan
from tenure.cron.describe import describe, explain, upcoming
from tenure.cron.schedule import Misfire, Schedule, tick_key
from tenure.errors import InvalidSchedule

SECOND = 1_000_000


@pytest.fixture
def builder():
    return ScheduleBuilder(Job(handler="report"), lambda job, backend: "id-1")


def times(schedule, after, count):
    return [f"{line.local:%H:%M:%S}" for line in upcoming(schedule, after, count)]


@pytest.mark.parametrize(
    ("length", "expression", "wanted"),
    [
        ("10s", "@every 10s", ["10:00:20", "10:00:30", "10:00:40"]),
        (15, "@every 15s", ["10:00:15", "10:00:30", "10:00:45"]),
        ("5m", "@every 5m", ["10:05:00", "10:10:00", "10:15:00"]),
        (timedelta(minutes=90), "@every 90m", ["10:30:00", "12:00:00", "13:30:00"]),
        ("2 hours", "@every 2h", ["12:00:00", "14:00:00", "16:00:00"]),
        ("1d", "@every 1d", ["00:00:00", "00:00:00", "00:00:00"]),
    ],
)
def test_an_interval_that_divides_a_day_is_aligned_to_midnight(builder, at, length, expression, wanted):
    schedule = builder.every(length).freeze("UTC")

    assert schedule.expression == expression
    assert times(schedule, at(3, 4, 10, 0, 12), 3) == wanted


def test_other_intervals_count_from_the_epoch(builder, at):
    schedule = builder.every("7s").freeze("UTC")

    first = schedule.after(at(3, 4, 10, 0))

    assert first % (7 * SECOND) == 0
    assert schedule.after(first) == first + 7 * SECOND
    assert schedule.before(first) == first - 7 * SECOND


def test_a_clock_change_does_not_matter(builder):
    schedule = builder.every("2h").freeze("Europe/Madrid")
    midnight = to_microseconds(datetime(2026, 3, 29, tzinfo=UTC))

    assert times(schedule, midnight - 1, 3) == ["01:00:00", "04:00:00", "06:00:00"]


@given(st.integers(1, 10**7), st.integers(0, 4 * 10**15))
def test_ticks_are_the_multiples_on_either_side(seconds, moment):
    schedule = Schedule(name="x", job=Job(handler="x", cron=f"@every {seconds}s"))
    length = seconds * SECOND

    assert schedule.after(moment) == moment // length * length + length
    assert schedule.before(moment) == (moment - 1) // length * length


@pytest.mark.parametrize("length", ["0s", "500ms", "1.5s", 0, "soon", -5, None])
def test_an_interval_is_whole_seconds_and_at_least_one(builder, length):
    with pytest.raises(InvalidSchedule):
        builder.every(length)


def test_every_is_not_combined_with_other_words_of_time(builder):
    with pytest.raises(InvalidSchedule, match="no other word of time can follow it"):
        builder.every("10s").weekdays()
    with pytest.raises(InvalidSchedule, match="no other word of time can go before it"):
        ScheduleBuilder(Job(handler="report"), lambda job, backend: "id-1").weekdays().every("10s")


def test_every_and_cron_replace_each_other(builder):
    assert builder.every("10s").every("20s").build().cron == "@every 20s"
    assert builder.cron("0 2 * * *").build().cron == "0 2 * * *"
    assert builder.cron("@Every 10s", timezone="Asia/Tokyo").build().cron == "@every 10s"
    assert ScheduleBuilder(builder.build(), lambda job, backend: "id-1").every("1m").build().cron == "@every 1m"


def test_starts_at_and_ends_at_bound_an_interval(builder, at):
    begin, end = datetime(2026, 3, 4, 10, 0, 30, tzinfo=UTC), datetime(2026, 3, 4, 10, 0, 50, tzinfo=UTC)
    schedule = builder.every("10s").starts_at(begin).ends_at(end).freeze("UTC")

    assert times(schedule, at(3, 4), 9) == ["10:00:30", "10:00:40"]


def test_each_tick_has_a_key_and_an_id_of_its_own(builder, at):
    schedule = builder.every("10s").freeze("UTC")
    ticks = [at(3, 4, 10, 0, second) for second in (0, 10, 20)]
    jobs = [schedule.occurrence(tick) for tick in ticks]

    assert tick_key("report", ticks[1]) == "report@2026-03-04T10:00:10Z"
    assert [job.meta["tick"] for job in jobs] == [
        *("2026-03-04T10:00Z", "2026-03-04T10:00:10Z", "2026-03-04T10:00:20Z")
    ]
    assert len({job.id for job in jobs}) == len({job.idempotency_key for job in jobs}) == 3


def test_late_ticks_of_an_interval_run_once(schedule, at):
    every = schedule("@every 10s")

    found = catch_up(every, at(3, 4, 10), at(3, 4, 10, 1, 5))

    assert found.run == (at(3, 4, 10, 1),)
    assert found.dropped == (at(3, 4, 10, 0, 10), at(3, 4, 10, 0, 50))


def test_a_tick_of_a_long_interval_runs_within_its_grace_and_not_later(schedule, at):
    every = schedule("@every 5m")

    assert catch_up(every, at(3, 4, 10), at(3, 4, 10, 5, 59)).run == (at(3, 4, 10, 5),)
    assert catch_up(every, at(3, 4, 10), at(3, 4, 10, 6, 1)).run == ()


def test_latest_and_all_apply_to_intervals(schedule, at):
    latest = schedule("@every 10s", misfire=Misfire("latest"))
    everything = schedule("@every 10s", misfire=Misfire("all", limit=4))

    assert catch_up(latest, at(3, 4, 10), at(3, 4, 12)).run == (at(3, 4, 12),)
    assert catch_up(everything, at(3, 4, 10), at(3, 4, 10, 1, 5)).run == tuple(
        at(3, 4, 10, *parts) for parts in ((0, 30), (0, 40), (0, 50), (1, 0))
    )


def test_a_plan_has_the_last_tick_of_the_minute_so_far(schedule, at):
    every, minutely = schedule("@every 10s", name="every"), schedule(name="minutely")

    planned = plan([every, minutely], at(3, 4, 10, 0, 25), "production")

    assert [step.tick for step in planned] == [at(3, 4, 10, 0, 20), at(3, 4, 10)]
    assert plan([every], at(3, 4, 10, 0, 25), "production", ["every"])[0].tick == at(3, 4, 10, 0, 20)


@pytest.mark.parametrize(
    ("expression", "words"),
    [("@every 10s", "Every 10 seconds"), ("@every 1m", "Every minute"), ("@every 90m", "Every 90 minutes")],
)
def test_an_interval_is_described_in_words(expression, words):
    assert describe(expression) == words


def test_an_interval_is_explained(schedule):
    told = explain(schedule("@every 10s"), "production")

    assert (told["when"], told["expression"]) == ("Every 10 seconds", "@every 10s")
    assert told["counts from"] == "each midnight in UTC, so clock changes do not matter"
    assert told["missed ticks"] == "runs the last one if it is up to 60 s late, and drops the rest"
    assert "missing times" not in told
    assert explain(schedule("@every 7s"), "production")["counts from"].startswith("1970-01-01 00:00 in UTC")
