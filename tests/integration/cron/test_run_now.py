"""A user runs a schedule once, outside its times, and the schedule goes on as before."""

from datetime import UTC, datetime

import pytest

from tenure import Tenure
from tenure.errors import InvalidSchedule
from tenure.testing import FakeClock

MINUTE = 60.0


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC))


@pytest.fixture(params=["memory", "sqlite", "redis"])
def app(request, tmp_path, clock):
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}.get(request.param)
    with Tenure(
        url or request.getfixturevalue("redis_url"), clock=clock, environment="development", timezone="UTC"
    ) as app:
        app.ran = []

        @app.job
        def report(month: int = 1) -> None:
            app.ran.append(month)

        yield app


@pytest.fixture
def report(app):
    return lambda: app.schedule("report", {"month": 7}).named("report").every_minute()


def work(app):
    app.worker("default", burst=True).run()


def test_a_schedule_runs_now_even_if_the_tick_of_this_minute_ran_before(app, report):
    report()
    app.cron.run()
    result = app.cron.run_now("report")
    work(app)
    assert (result.is_new, result.record.state) == (True, "enqueued")
    assert app.ran == [7, 7]
    assert [tick.state for tick in app.cron.history("report")] == ["succeeded", "succeeded"]


def test_the_same_tick_by_hand_runs_once(app, clock, report):
    report()
    moment = clock.now() + 1
    assert app.cron.run_now("report", moment).is_new
    assert not app.cron.run_now("report", moment).is_new
    assert app.cron.run_now("report", moment + 1).is_new
    work(app)
    assert app.ran == [7, 7]


def test_ticks_by_hand_within_one_second_do_not_share_an_idempotency_key_with_each_other_or_the_schedule(app, clock):
    app.schedule("report", {"month": 1}).named("often").every("10s")
    app.cron.run()
    second = clock.now() // 1_000_000 * 1_000_000
    app.cron.run_now("often", second + 1)
    app.cron.run_now("often", second + 2)
    work(app)
    assert app.ran == [1, 1, 1]


def test_a_run_by_hand_does_not_hide_the_ticks_that_no_scheduler_has_entered_yet(app, clock, report):
    report().misfire("all")
    app.cron.run()
    clock.advance(3 * MINUTE)
    app.cron.run_now("report")
    clock.advance(1.0)
    app.cron.run()
    work(app)
    assert app.ran == [7] * 5  # the first, three missed ones, and the one by hand


def test_a_paused_schedule_runs_by_hand_and_stays_paused(app, report):
    report()
    app.cron.pause("report")
    assert app.cron.run_now("report").record.state == "enqueued"
    assert "report" in app.cron.ledger.paused()


def test_dependencies_and_jitter_do_not_delay_a_run_by_hand(app, report):
    report()
    app.schedule("report", {"month": 9}).named("summary").depends_on("report").every_minute().jitter(50)
    app.cron.run_now("summary")
    work(app)
    assert app.ran == [9]


def test_an_earlier_tick_that_has_not_ended_lets_a_run_by_hand_be_skipped_if_the_schedule_says_so(app, report):
    report().overlap("skip")
    app.cron.run()
    result = app.cron.run_now("report")
    assert (result.record.state, result.record.why) == ("skipped", "an earlier tick has not ended")


def test_an_inline_schedule_runs_by_hand_in_this_process(app):
    app.schedule("report", {"month": 3}).named("here").every_minute().inline()
    assert app.cron.run_now("here").record.state == "succeeded"
    assert app.ran == [3]


def test_a_schedule_that_is_not_for_this_environment_is_not_run_by_hand(app, report):
    report().environments("production")
    with pytest.raises(InvalidSchedule, match="'report' does not run here: only in production; this is development"):
        app.cron.run_now("report")
    with pytest.raises(InvalidSchedule, match="no schedule is called 'reprot'"):
        app.cron.run_now("reprot")
