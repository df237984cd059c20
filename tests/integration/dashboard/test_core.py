"""Dashboard: reading, acting, audit records, and the figures that all viewers share."""

import threading

import pytest
from msgspec import Struct

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.core import Dashboard, Preview
from tenure.app.dashboard.figures import Figures, Recorder
from tenure.app.dashboard.queues import DrainQueue, PauseQueue, QueuesQuery, ResumeQueue
from tenure.clock import to_datetime
from tenure.errors import AccessDenied, ActionRefused, BackendError, JobNotFound

ADMIN = everything("ada")


@pytest.fixture
def app(tmp_path):
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", environment="development") as app:

        @app.job(queue="emails")
        def send(user: int) -> None: ...

        app.enqueue_many(send.build(user=number) for number in range(3))
        yield app


@pytest.fixture
def dashboard(app):
    dashboard = Dashboard(app)
    yield dashboard
    dashboard.close()


class Steps(Struct, frozen=True, kw_only=True):
    """A command that does what a test tells it between its steps."""

    action = "jobs.cancel"
    between: list = []
    results: tuple = ({"cancelled": 2}, {"cancelled": 1, "too_late": 1})

    def target(self):
        return "queue:emails"

    def check(self, sources, access):
        pass

    def preview(self, sources, access):
        return Preview(question="Cancel?", verb="Cancel")

    def steps(self, sources, access):
        for result in self.results:
            for each in self.between:
                each()
            yield result

    def outcome(self, counts):
        return f"{counts['cancelled']} cancelled."

    def undo(self):
        return None


def audit_of(app):
    return app.parts().audit.page(limit=10)


class TestActing:
    def test_an_action_changes_something_and_leaves_a_record(self, app, dashboard):
        record = dashboard.act(PauseQueue(queue="emails", reason="migration"), ADMIN, "migration")

        assert app.guards.paused("emails")["emails"].reason == "migration"
        assert audit_of(app) == [record]
        assert (record.actor, record.action, record.target, record.why) == (
            *("ada", "queue.pause", "emails"),
            "migration",
        )
        assert (record.state, record.counts) == ("done", {"paused": 1})
        assert record.at <= record.ended_at

    def test_the_counts_of_all_steps_are_added_up(self, dashboard):
        record = dashboard.act(Steps(), ADMIN, "test")

        assert record.counts == {"cancelled": 3, "too_late": 1}

    def test_a_refused_action_leaves_no_record_and_changes_nothing(self, app, dashboard):
        with pytest.raises(AccessDenied):
            dashboard.act(PauseQueue(queue="emails"), Access(user="eve"), "test")

        assert audit_of(app) == []
        assert app.guards.paused("emails") == {}

    def test_a_queue_of_other_users_is_refused(self, app, dashboard):
        with pytest.raises(AccessDenied, match="may not see queue 'emails'"):
            dashboard.act(PauseQueue(queue="emails"), Access(user="eve", role="admin", queues=("invoices",)), "test")

        assert app.guards.paused("emails") == {}

    def test_an_unknown_queue_is_refused_with_the_known_ones(self, dashboard):
        with pytest.raises(ActionRefused, match=r"no queue 'email' is known; known are .*emails"):
            dashboard.act(PauseQueue(queue="email"), ADMIN, "test")

    def test_a_failing_action_is_recorded_with_its_error_and_raised(self, app, dashboard):
        def fail():
            raise BackendError("the server went away")

        with pytest.raises(BackendError):
            dashboard.act(Steps(between=[fail]), ADMIN, "test")

        (record,) = audit_of(app)
        assert (record.state, record.error) == ("failed", "the server went away")

    def test_a_queue_is_resumed_by_undoing_its_pause(self, app, dashboard):
        command = PauseQueue(queue="emails")
        dashboard.act(command, ADMIN)

        dashboard.act(command.undo(), ADMIN)

        assert app.guards.paused("emails") == {}
        assert ResumeQueue(queue="emails").undo() == command

    def test_a_draining_queue_is_paused_until_its_jobs_have_ended(self, app, dashboard):
        app.backend.lease(["emails"], limit=1, seconds=60)

        dashboard.act(DrainQueue(queue="emails"), ADMIN)

        (row,) = [row for row in dashboard.read(QueuesQuery(), ADMIN).queues if row.figures.name == "emails"]
        assert row.is_draining
        assert row.figures.leased == 1

    def test_a_preview_changes_nothing(self, app, dashboard):
        preview = dashboard.preview(PauseQueue(queue="emails"), ADMIN)

        assert preview.question == "Pause queue emails?"
        assert [(each.state, each.count) for each in preview.effects] == [("ready", 3), ("leased", 0)]
        assert (app.guards.paused("emails"), audit_of(app)) == ({}, [])


class TestLongActions:
    @pytest.fixture
    def gate(self):
        gate = threading.Event()
        yield gate
        gate.set()

    def test_a_long_action_goes_on_in_the_background(self, app, dashboard, gate, eventually, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.core.SAVE_INTERVAL_SECONDS", 0.0)
        record = dashboard.start(Steps(between=[gate.wait]), ADMIN, "test")

        assert record.state == "running"
        assert dashboard.record(record.id, ADMIN).state == "running"
        gate.set()
        eventually(lambda: dashboard.record(record.id, ADMIN).state == "done")
        assert dashboard.record(record.id, ADMIN).counts == {"cancelled": 3, "too_late": 1}

    def test_a_short_action_has_ended_when_start_returns(self, dashboard):
        assert dashboard.start(Steps(), ADMIN, "test").state == "done"

    def test_an_error_of_a_short_action_is_raised(self, dashboard):
        def fail():
            raise BackendError("the server went away")

        with pytest.raises(BackendError, match="went away"):
            dashboard.start(Steps(between=[fail]), ADMIN, "test")

    def test_a_user_stops_a_long_action_between_two_steps(self, app, dashboard, gate, eventually, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.core.SAVE_INTERVAL_SECONDS", 0.0)
        first = threading.Event()
        command = Steps(between=[first.set, gate.wait])
        started = threading.Thread(target=lambda: dashboard.act(command, ADMIN, "test"))
        started.start()
        first.wait()
        (record,) = audit_of(app)

        dashboard.stop(record.id, ADMIN)
        gate.set()
        started.join()

        assert dashboard.record(record.id, ADMIN).state == "stopped"
        assert dashboard.record(record.id, ADMIN).counts == {"cancelled": 2}
        assert [each.action for each in audit_of(app)] == ["bulk.stop", "jobs.cancel"]

    def test_an_action_that_has_ended_cannot_be_stopped(self, dashboard):
        record = dashboard.act(Steps(), ADMIN, "test")

        with pytest.raises(ActionRefused, match="may have ended meanwhile"):
            dashboard.stop(record.id, ADMIN)

    def test_a_viewer_may_not_stop_the_action_of_another_user(self, app, dashboard):
        with pytest.raises(AccessDenied):
            dashboard.stop("any", Access(user="eve"))

    def test_a_user_without_the_audit_page_sees_only_own_actions(self, dashboard):
        record = dashboard.act(Steps(), ADMIN, "test")

        with pytest.raises(JobNotFound):
            dashboard.record(record.id, Access(user="eve"))
        assert dashboard.record(record.id, Access(user="ada")) == record


class TestQueues:
    def test_a_user_sees_only_own_queues(self, dashboard):
        model = dashboard.read(QueuesQuery(), Access(user="eve", queues=("emails",)))

        assert [row.figures.name for row in model.queues] == ["emails"]

    def test_waiting_jobs_and_the_oldest_are_shown(self, dashboard):
        model = dashboard.read(QueuesQuery(), Access(user="eve", queues=("emails",)))

        assert model.queues[0].figures.ready == 3
        assert model.queues[0].figures.oldest_age >= 0


class TestFigures:
    def figures(self, **more):
        return Figures(at=to_datetime(0), **more)

    def recorder(self, read):
        return Recorder(read, lambda: 0)

    def test_viewers_share_what_was_read(self, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.figures.MIN_AGE_SECONDS", 60.0)
        reads = []
        recorder = self.recorder(lambda: reads.append(1) or self.figures())

        for _ in range(10):
            recorder.latest()

        recorder.close()
        assert len(reads) == 1

    def test_a_request_does_not_wait_for_newer_figures(self, monkeypatch):
        monkeypatch.setattr("tenure.app.dashboard.figures.MIN_AGE_SECONDS", 0.0)
        slow, reads = threading.Event(), []

        def read():
            reads.append(1)
            if len(reads) > 1:
                slow.wait()
            return self.figures()

        recorder = self.recorder(read)
        first = recorder.latest()

        assert recorder.latest() is first

        slow.set()
        recorder.close()

    def test_a_backend_that_is_down_leaves_the_last_figures_and_the_error(self):
        answers = [self.figures(open_breakers=("payments",))]

        def read():
            if not answers:
                raise BackendError("connection refused")
            return answers.pop()

        recorder = self.recorder(read)
        recorder.latest()
        stale = recorder.read_now()

        recorder.close()
        assert stale.error == "connection refused"
        assert stale.open_breakers == ("payments",)

    def test_without_any_answer_the_figures_say_so(self):
        def read():
            raise BackendError("connection refused")

        recorder = self.recorder(read)
        figures = recorder.latest()

        recorder.close()
        assert (figures.error, figures.counts_known, figures.queues) == ("connection refused", False, ())

    def test_slow_figures_are_read_rarely(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("tenure.app.dashboard.figures.time.monotonic", lambda: now[0])

        def read():
            now[0] += 2.0
            return self.figures()

        recorder = self.recorder(read)
        recorder.latest()

        now[0] += 39.0
        assert not recorder._is_due()
        now[0] += 1.0
        assert recorder._is_due()
        recorder.close()
