"""Check-ins of schedules: one pair for each tick, however many schedulers run."""

import pytest

from tenure import Snooze, Tenure
from tenure.integrations.sentry import instrument
from tenure.integrations.sentry.check_ins import monitor_of, slug

MINUTE = 60


@pytest.fixture
def app(clock, tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as app:
        app.job(name="load")(lambda: None)

        @app.job(name="fail")
        def fail():
            raise ValueError

        yield app


@pytest.fixture
def sentry(start):
    return start(monitor_schedules=True, exclude_schedules=["quiet"])


def run_ticks(app, clock, schedulers=3):
    """Several schedulers over one tick each minute, and a worker that runs its job with its tick recorder."""
    several = [app.cron.scheduler(None) for _ in range(schedulers)]
    for each in several:
        each.beat()
    clock.advance(MINUTE)
    for each in several:
        each.beat()
    app.worker("default", burst=True).run()


def test_a_tick_has_one_pair_of_check_ins_although_three_schedulers_run(sentry, app, clock):
    app.schedule("load").every_minute().named("Nightly Load")
    run_ticks(app, clock)
    begun, ended = sentry.check_ins
    assert (begun["status"], ended["status"]) == ("in_progress", "ok")
    assert begun["check_in_id"] == ended["check_in_id"]
    assert {begun["monitor_slug"], ended["monitor_slug"]} == {"nightly-load"}
    assert ended["duration"] == 0  # by the clock of this test
    assert begun["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "* * * * *"}, "timezone": "UTC", "checkin_margin": 2,
    }  # fmt: skip


@pytest.fixture
def apart(sentry, clock, tmp_path):
    """An app whose ledger is used as if it were in another database: ticks are intended, put, and then enqueued."""
    with Tenure(f"sqlite:///{tmp_path}/other.db", clock=clock) as app:
        instrument(app)
        app.cron.ledger.booking = None
        app.job(name="load")(lambda: None)
        yield app


def test_a_store_apart_from_the_queue_gives_one_pair_too(sentry, apart, clock):
    apart.schedule("load").every_minute()
    run_ticks(apart, clock)
    assert [each["status"] for each in sentry.check_ins] == ["in_progress", "ok"]


def test_a_tick_whose_job_dies_is_an_error(sentry, app, clock):
    app.schedule("fail").every_minute()
    run_ticks(app, clock)
    assert [each["status"] for each in sentry.check_ins] == ["in_progress", "error"]


def test_an_inline_tick_has_a_pair(sentry, app):
    app.schedule("load").every_minute().inline()
    app.cron.run()
    assert [each["status"] for each in sentry.check_ins] == ["in_progress", "ok"]


@pytest.mark.parametrize("place", ["app", "apart"])
def test_a_tick_that_waits_for_another_begins_when_it_is_released(request, sentry, clock, place):
    app = request.getfixturevalue(place)
    app.schedule("load").every_minute()
    app.schedule("load").every_minute().named("after").depends_on("load")
    run_ticks(app, clock)
    assert [(each["monitor_slug"], each["status"]) for each in sentry.check_ins][:3] == [
        ("load", "in_progress"), ("load", "ok"), ("after", "in_progress"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["quiet", "often"])
def test_excluded_schedules_and_those_below_a_minute_have_none(sentry, app, clock, name):
    app.schedule("load").every("10s" if name == "often" else "1m").named(name)
    run_ticks(app, clock)
    assert app.cron.history(name)
    assert sentry.check_ins == []


def test_a_schedule_that_is_run_by_hand_has_none(sentry, app):
    app.schedule("load").daily_at("02:00")
    app.cron.run_now("load")
    app.worker("default", burst=True).run()
    assert sentry.check_ins == []


def test_schedules_are_monitored_only_if_the_user_asks(start, app, clock):
    sentry = start()
    app.schedule("load").every_minute()
    run_ticks(app, clock)
    assert sentry.check_ins == []


def test_the_monitor_of_a_schedule_says_how_late_and_how_long_it_may_be(app):
    app.schedule("load").daily_at("02:00", timezone="Europe/Madrid").jitter("2m").timeout(90).max_retries(1)
    (schedule,) = app.schedules.all()
    assert monitor_of(schedule) == {
        "schedule": {"type": "crontab", "value": "0 2 * * *"}, "timezone": "Europe/Madrid", "checkin_margin": 4,
        "max_runtime": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("length", "expected"), [("2h", (2, "hour")), ("90m", (90, "minute")), ("1d", (1, "day")), ("90s", None)]
)
def test_intervals_are_whole_minutes_or_are_not_monitored(app, length, expected):
    app.schedule("load").every(length)
    monitor = monitor_of(app.schedules.all()[0])
    found = monitor and (monitor["schedule"]["value"], monitor["schedule"]["unit"])
    assert found == expected


def test_an_expression_that_sentry_does_not_know_is_not_monitored(app):
    app.schedule("load").cron("0 2 15W * *")
    assert monitor_of(app.schedules.all()[0]) is None


def test_names_of_schedules_become_slugs():
    assert slug("Daily: Report/July") == "daily-report-july"
    assert slug("日本") == slug("日本") != slug("中国")
    assert len(slug("x" * 80)) == 50 != slug("y" * 80)


def test_a_job_of_a_tick_that_is_put_off_has_not_ended(sentry, app, clock):
    @app.job(name="later")
    def later():
        raise Snooze("1h")

    app.schedule("later").every_minute()
    run_ticks(app, clock)
    assert [each["status"] for each in sentry.check_ins] == ["in_progress"]
