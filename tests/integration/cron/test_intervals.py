"""Schedules below a minute: each tick is entered in the ledger and enqueued once, and the scheduler wakes in time."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from tenure import Tenure
from tenure.testing import FakeClock, run_due

START = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def app(request, tmp_path, clock):
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}.get(request.param)
    app = Tenure(url or request.getfixturevalue("redis_url"), clock=clock, environment="development")

    @app.job
    def poll() -> None: ...

    @app.job
    def report() -> None: ...

    app.schedule(poll).every("10s")
    with closing(app):
        yield app


def scheduler(app):
    made = app.cron.scheduler(lambda schedule, tick: None)
    made.beat()
    return made


def ticks(app, name="poll"):
    """The second of each tick and its state, the oldest first."""
    return [(record.tick // 1_000_000 % 3600, record.state) for record in reversed(app.cron.history(name))]


def test_each_tick_is_enqueued_once_by_two_schedulers(app, clock):
    both = [scheduler(app), scheduler(app)]
    for _ in range(60):
        clock.advance(1)
        for each in both:
            each.beat()

    assert ticks(app) == [(second, "enqueued") for second in (10, 20, 30, 40, 50, 60)]
    assert run_due(app) == {"acked": 6}


def test_the_scheduler_asks_to_be_called_at_the_next_tick(app, clock):
    beats = scheduler(app)
    clock.advance(4.75)  # it is 0:09.75

    assert beats.beat() == pytest.approx(0.25)


def test_late_ticks_run_once_and_the_rest_is_recorded_as_missed(app, clock):
    beats = scheduler(app)
    clock.advance(5)
    beats.beat()
    clock.advance(45)  # it is 0:55
    beats.beat()

    assert ticks(app) == [(10, "enqueued"), (40, "skipped"), (50, "enqueued")]
    assert [record.why for record in app.cron.history("poll")][1] == (
        "missed, with all before it since 2026-01-01T00:00:20Z"
    )


def test_missed_ticks_all_run_if_the_schedule_says_so(app, clock):
    app.schedule("poll").named("all").every("10s").misfire("all")
    beats = scheduler(app)
    clock.advance(45)  # it is 0:50
    beats.beat()

    assert ticks(app, "all") == [(second, "enqueued") for second in (10, 20, 30, 40, 50)]


def test_a_dependent_waits_for_the_tick_of_the_same_second(app, clock):
    app.schedule("report").every("30s").depends_on("poll")
    beats = scheduler(app)
    clock.advance(25)
    beats.beat()
    assert ticks(app, "report") == [(30, "waiting")]

    run_due(app)
    clock.advance(1)
    beats.beat()
    run_due(app)

    assert ticks(app, "report") == [(30, "succeeded")]


def test_overlap_applies_to_intervals(app, clock):
    app.schedule("poll").named("alone").every("10s").overlap("skip")
    beats = scheduler(app)
    for _ in range(2):
        clock.advance(10)
        beats.beat()

    assert ticks(app, "alone") == [(10, "enqueued"), (20, "skipped")]


def test_cron_run_runs_the_last_tick_so_far(app, clock):
    clock.advance(20)  # it is 0:25

    (first,), (again,) = app.cron.run(), app.cron.run()

    assert (first.record.tick // 1_000_000 % 3600, first.record.state, first.is_new) == (20, "enqueued", True)
    assert not again.is_new
