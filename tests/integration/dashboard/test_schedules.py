"""The page of schedules, and the actions pause, resume and run now."""

from datetime import UTC, datetime

import pytest

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.schedule_actions import PauseSchedule, ResumeSchedule, RunSchedule
from tenure.app.dashboard.schedules import SchedulesQuery, clock_changes
from tenure.errors import AccessDenied, ActionRefused, JobNotFound
from tenure.testing import FakeClock
from tenure.wire.signing import new_key

ADMIN = everything("ada")
MAIL_ONLY = Access(user="mia", role="admin", queues=("mail",))
everywhere = pytest.mark.parametrize("url", ["memory", "sqlite", "postgres", "mariadb", "redis"], indirect=True)


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 11, 15, 14, 32, 8, tzinfo=UTC))


@pytest.fixture(params=["sqlite"])
def url(request, tmp_path):
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
        case "redis":
            return request.getfixturevalue("redis_url")
        case name:
            place, empty = request.getfixturevalue(f"{name}_place")
            empty()
            return place


@pytest.fixture
def app(url, clock):
    with Tenure(url, keys=[new_key().dump()], environment="development", clock=clock, timezone="UTC") as app:
        app.ran = []

        @app.job(queue="reports")
        def report(month: int = 1) -> None:
            app.ran.append(month)

        @app.job(queue="mail")
        def digest() -> None:
            raise ValueError("no paper")

        app.schedule("report").named("nightly").daily_at("02:30", timezone="Europe/Madrid").depends_on("prices")
        app.schedule("report").named("prices").cron("*/5 * * * *")
        app.schedule("digest").named("weekly").cron("0 8 * * 1")
        yield app


@pytest.fixture
def dashboard(app):
    dashboard = Dashboard(app)
    yield dashboard
    dashboard.close()


def rows(dashboard, access=ADMIN, **fields):
    return {row.name: row for row in dashboard.read(SchedulesQuery(**fields), access).schedules}


def work(app):
    app.worker("reports", "mail", burst=True).run()


@everywhere
def test_each_schedule_is_shown_with_its_last_and_next_ticks(app, dashboard):
    app.cron.run("2026-11-15T14:25:00Z")
    work(app)
    app.cron.run("2026-11-15T14:30:00Z")
    app.cron.run("2026-11-09T08:00:00Z", only=["weekly"])
    work(app)
    found = rows(dashboard)
    assert list(found) == ["nightly", "prices", "weekly"]
    assert [tick.outcome for tick in found["prices"].ticks] == ["succeeded", "succeeded"]
    assert [(tick.outcome, tick.why) for tick in found["weekly"].ticks] == [("failed", "retries_exhausted")]
    assert found["prices"].ticks[0].at < found["prices"].ticks[1].at
    assert app.jobs.get(found["prices"].ticks[0].id).state == "done"
    assert found["nightly"].counts() == "no tick yet"


def test_the_next_tick_is_in_the_zone_of_the_schedule_and_in_words(dashboard):
    found = rows(dashboard)
    assert (found["prices"].next_text, found["prices"].expression) == ("14:35", "*/5 * * * *")
    assert (found["nightly"].next_text, found["nightly"].zone) == ("Mon 02:30", "Europe/Madrid")
    assert found["nightly"].next_at == datetime(2026, 11, 16, 1, 30, tzinfo=UTC)
    assert found["weekly"].words == "At 08:00 on Monday"


def test_the_panel_of_a_schedule_says_all_about_it(app, dashboard):
    app.cron.run("2026-11-15T14:30:00Z")
    work(app)
    panel = dashboard.read(SchedulesQuery(name="prices"), ADMIN).panel
    assert (panel.needed_by, panel.depends_on) == (("nightly",), ())
    assert [mark.mark.outcome for mark in panel.past] == ["succeeded"]
    assert panel.past[0].seconds is not None
    assert [each.local for each in panel.upcoming][:2] == ["Sun 15 Nov 14:35", "Sun 15 Nov 14:40"]
    nightly = dashboard.read(SchedulesQuery(name="nightly"), ADMIN).panel
    text = "".join(part for part, _ in nightly.sentence)
    assert text == "At 02:30 every day in Europe/Madrid, on queue reports, after prices of the same tick."
    assert [name for name, is_name in nightly.sentence if is_name] == ["reports", "prices"]
    assert nightly.upcoming[0].at == datetime(2026, 11, 16, 1, 30, tzinfo=UTC)
    assert "missed ticks" in dict(nightly.facts)


def test_clock_changes_are_told_for_schedules_that_name_their_hours(app, clock):
    nightly, prices = app.schedules.get("nightly"), app.schedules.get("prices")
    assert list(clock_changes(nightly, clock.now())) == [
        "On 28 Mar 2027 it runs at 03:00, instead of 02:30, which is missing that day.",
        "On 31 Oct 2027 it runs at 02:30, the first of two 02:30.",
    ]
    assert list(clock_changes(prices, clock.now())) == []


def test_a_schedule_of_another_environment_says_so_and_has_no_next_tick(app, dashboard):
    app.schedule("report").named("live").hourly().environments("production")
    row = rows(dashboard)["live"]
    assert (row.note, row.next_at) == ("only in production; this is development", None)
    with pytest.raises(ActionRefused, match="does not run here: only in production"):
        dashboard.act(RunSchedule(name="live"), ADMIN)


class TestFilter:
    def test_schedules_are_found_by_name_handler_queue_and_text(self, dashboard):
        assert list(rows(dashboard, q="name:ni*")) == ["nightly"]
        assert list(rows(dashboard, q="handler:digest")) == ["weekly"]
        assert list(rows(dashboard, q="-queue:mail")) == ["nightly", "prices"]
        assert list(rows(dashboard, q="monday")) == ["weekly"]
        assert list(rows(dashboard, q="nothing")) == []

    def test_an_unknown_key_is_refused(self, dashboard):
        page = dashboard.read(SchedulesQuery(q="state:ready"), ADMIN)
        assert (page.status, page.schedules) == (400, ())
        assert page.fault == "There is no key “state”; there are name, handler, queue."

    def test_an_unknown_schedule_is_not_found(self, dashboard):
        with pytest.raises(JobNotFound, match="no schedule is called 'nightmare'"):
            dashboard.read(SchedulesQuery(name="nightmare"), ADMIN)

    def test_many_schedules_come_in_pages(self, app, dashboard, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.schedules.PAGE_SCHEDULES", 2)
        first = dashboard.read(SchedulesQuery(), ADMIN)
        second = dashboard.read(SchedulesQuery(after=first.next), ADMIN)
        assert [row.name for row in first.schedules] == ["nightly", "prices"]
        assert [row.name for row in second.schedules] == ["weekly"]
        assert (first.total, first.first, second.first, second.next) == (3, 1, 3, None)


class TestPause:
    @everywhere
    def test_a_schedule_is_paused_and_resumed(self, app, dashboard, clock):
        command = PauseSchedule(name="prices")
        record = dashboard.act(command, ADMIN, "wrong prices")
        assert (record.target, record.counts) == ("prices", {"paused": 1})
        row = rows(dashboard)["prices"]
        assert row.paused_since is not None
        assert row.next_at is None
        assert command.outcome(dashboard.act(command, ADMIN, "again").counts) == "prices is paused since before."
        dashboard.act(command.undo(), ADMIN)
        assert rows(dashboard)["prices"].paused_since is None
        assert ResumeSchedule(name="prices").undo() == command

    def test_all_schedules_are_paused_and_resumed(self, app, dashboard):
        dashboard.act(PauseSchedule(), ADMIN, "incident")
        page = dashboard.read(SchedulesQuery(), ADMIN)
        assert page.all_paused_since is not None
        assert all(row.paused_since for row in page.schedules)
        dashboard.act(ResumeSchedule(), ADMIN)
        assert dashboard.read(SchedulesQuery(), ADMIN).all_paused_since is None

    def test_a_pause_of_a_schedule_that_is_no_longer_declared_can_be_ended(self, app, dashboard):
        app.cron.ledger.pause("gone")
        assert dashboard.act(ResumeSchedule(name="gone"), ADMIN).counts == {"resumed": 1}
        with pytest.raises(ActionRefused, match="no schedule is called 'gone'"):
            dashboard.act(ResumeSchedule(name="gone"), ADMIN)


class TestRunNow:
    @everywhere
    def test_a_schedule_runs_once_for_each_form_even_if_its_tick_ran_before(self, app, dashboard, clock):
        app.cron.run("2026-11-15T14:30:00Z")
        command = RunSchedule(name="prices", token="form 1")
        assert command.outcome(dashboard.act(command, ADMIN).counts) == "prices is enqueued."
        again = dashboard.act(command, ADMIN)
        assert again.counts == {"run_before": 1}
        clock.advance(90.0)
        assert dashboard.act(command, ADMIN).counts == {"run_before": 1}
        dashboard.act(RunSchedule(name="prices", token="form 2"), ADMIN)
        work(app)
        assert app.ran == [1, 1, 1]
        ticks = rows(dashboard)["prices"].ticks
        assert [(tick.outcome, tick.by_hand) for tick in ticks] == [
            ("succeeded", False),
            ("succeeded", True),
            ("succeeded", True),
        ]

    def test_a_schedule_runs_for_each_call_without_a_token(self, app, dashboard, clock):
        for _ in range(2):
            dashboard.act(RunSchedule(name="prices"), ADMIN)
            clock.advance(0.001)
        work(app)
        assert app.ran == [1, 1]

    def test_the_preview_says_what_the_schedule_would_do(self, app, dashboard):
        preview = dashboard.preview(RunSchedule(name="nightly"), ADMIN)
        assert preview.question == "Run nightly now?"
        assert preview.effects[0].text == "report is put on queue reports, once"
        assert "It does not wait for the schedules that it depends on." in preview.notes


class TestAccess:
    def test_a_user_sees_and_changes_only_schedules_of_own_queues(self, app, dashboard):
        app.schedule("digest").named("inline").hourly().inline()
        assert list(rows(dashboard, MAIL_ONLY)) == ["weekly"]
        with pytest.raises(JobNotFound):
            dashboard.read(SchedulesQuery(name="nightly"), MAIL_ONLY)
        for command in (PauseSchedule(name="nightly"), RunSchedule(name="nightly"), ResumeSchedule(name="inline")):
            with pytest.raises(ActionRefused, match="no schedule is called"):
                dashboard.act(command, MAIL_ONLY, "test")
        for command in (PauseSchedule(), ResumeSchedule()):
            with pytest.raises(AccessDenied, match="concerns all of them"):
                dashboard.act(command, MAIL_ONLY, "test")
        assert dashboard.act(PauseSchedule(name="weekly"), MAIL_ONLY, "test").counts == {"paused": 1}

    def test_viewers_change_nothing(self, dashboard):
        for command in (PauseSchedule(name="weekly"), ResumeSchedule(), RunSchedule(name="weekly")):
            with pytest.raises(AccessDenied):
                dashboard.act(command, Access(user="eve"), "test")


class TestUnavailable:
    def test_a_dashboard_without_handlers_says_how_to_see_schedules(self, url):
        with Tenure(url, environment="development") as app:
            dashboard = Dashboard(app, has_handlers=False)
            assert "start it with --app" in dashboard.read(SchedulesQuery(), ADMIN).unavailable
            dashboard.close()

    def test_an_app_without_schedules_says_so(self, url):
        with Tenure(url, environment="development") as app:
            dashboard = Dashboard(app)
            assert dashboard.read(SchedulesQuery(), ADMIN).unavailable.startswith("No schedule is declared")
            dashboard.close()

    def test_a_backend_without_a_ledger_shows_the_schedules_and_what_to_set(self, beanstalk_url):
        with Tenure(beanstalk_url, keys=[new_key().dump()]) as app:

            @app.job
            def report() -> None: ...

            app.schedule("report").hourly()
            dashboard = Dashboard(app)
            page = dashboard.read(SchedulesQuery(), ADMIN)
            assert [row.name for row in page.schedules] == ["report"]
            assert "set store to a server" in page.no_ledger
            with pytest.raises(ActionRefused, match="set store to a server"):
                dashboard.act(RunSchedule(name="report"), ADMIN)
            dashboard.close()
