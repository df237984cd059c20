"""Names of queues in an app: any spelling means the same queue, and typos are found."""

import pytest

from tenure import Tenure
from tenure.errors import UnknownBackend, UnknownQueue
from tenure.settings import LaneSettings
from tenure.worker.lane import Lane


def make(**settings):
    app = Tenure("memory://", **settings)

    @app.job(queue="reports")
    def report() -> None: ...

    return app, report


def ready(app):
    return {queue: states["ready"] for queue, states in app.backend.queues.counts().items() if states["ready"]}


@pytest.mark.parametrize("spelling", ["reports", "Reports", "REPORTS"])
def test_a_job_for_any_spelling_goes_to_the_queue_of_the_handler(spelling):
    app, report = make()
    with app:
        report.using(queue=spelling).enqueue()
        app.enqueue_many([report.using(queue=spelling).build() for _ in range(2)])
        assert ready(app) == {"reports": 3}

        worker = app.worker(spelling, burst=True)
        worker.run()
        assert ready(app) == {}


def test_a_lane_may_spell_its_queue_in_another_way():
    app, report = make()
    with app:
        report.enqueue()
        app.worker(lanes=[Lane(queues=("REPORTS",), runner="inline", name="slow")], burst=True).run()
        assert ready(app) == {}


def test_an_allowlist_applies_to_every_spelling_of_its_queue():
    app, report = make(allow={"Reports": ["other"]})
    with app, pytest.raises(Exception, match="queue 'Reports' does not allow handler 'report'"):
        report.enqueue()


def test_a_pause_applies_to_every_spelling_of_its_queue():
    app, report = make()
    with app:
        report.enqueue()
        assert app.guards.pause("REPORTS")
        app.worker("reports", burst=True).run()
        assert ready(app) == {"reports": 1}
        assert list(app.guards.paused("Reports")) == ["reports"]

        assert app.guards.resume("Reports")
        app.worker("reports", burst=True).run()
        assert ready(app) == {}


def test_a_rate_applies_to_every_spelling_of_its_queue():
    app, report = make(rates={"REPORTS": "1/min"})
    with app:
        app.enqueue_many([report.build() for _ in range(2)])
        app.worker("reports", burst=True).run()
        assert ready(app) == {"REPORTS": 1}
        assert app.guards.queue("reports").usage().used == 1


def test_an_unknown_queue_is_accepted_by_default():
    app, report = make()
    with app:
        report.using(queue="tenant-7").enqueue()
        assert ready(app) == {"tenant-7": 1}


def test_strict_queues_refuse_a_typo_on_enqueue_and_by_workers():
    app, report = make(strict_queues=True, lanes={"slow": LaneSettings(queues=("videos",))})
    with app:
        for use in (report.using(queue="reprots").enqueue, lambda: app.worker("reprots")):
            with pytest.raises(UnknownQueue, match=r"no queue 'reprots' is known; did you mean 'reports'\?"):
                use()
        report.using(queue="VIDEOS").enqueue()
        assert ready(app) == {"videos": 1}


def test_strict_queues_refuse_a_schedule_with_a_typo():
    app, report = make(strict_queues=True)
    app.schedule(report.build()).daily().queue("reprots")

    with app, pytest.raises(Exception, match=r"no queue 'reprots' is known; did you mean 'reports'\?"):
        app.schedules.all()


def test_a_worker_for_a_mistyped_queue_logs_a_warning(caplog):
    app, _ = make()
    with app:
        app.worker("reprots", "tenant-7", burst=True).run()

    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warning == (
        "this worker serves the queue 'reprots', which no handler, setting or stored job names; did you mean 'reports'?"
    )


def test_a_worker_for_a_queue_with_jobs_logs_no_warning(caplog):
    app, report = make()
    with app:
        report.using(queue="report").enqueue()
        app.worker("report", burst=True).run()

    assert caplog.messages == []


class Archive:
    name = "archive"


@pytest.mark.parametrize("given", ["REPORTS", "papers", "Papers"])
def test_an_app_resolves_any_spelling_and_alias(given):
    app, _ = make(aliases={"papers": "reports"})
    assert app.resolve_queue(given) == "reports"


@pytest.mark.parametrize("given", [Archive, Archive(), f"{__name__}.Archive", f"{__name__}:Archive", "ARCHIVE"])
def test_an_app_resolves_a_queue_class(given):
    app, _ = make()
    app.queues.add(Archive)
    assert app.resolve_queue(given) == "archive"
    assert app.manager().resolve_queue(given) == "archive"


def test_an_app_does_not_resolve_an_unknown_name():
    app, _ = make()
    for resolve in (app.resolve_queue, app.manager().resolve_queue):
        with pytest.raises(UnknownQueue, match=r"no queue 'reprots' is known; did you mean 'reports'\?"):
            resolve("reprots")


def test_a_mistyped_lane_gets_a_suggestion():
    app, _ = make(lanes={"slow": LaneSettings(queues=("videos",))})
    with app, pytest.raises(Exception, match=r"there is no lane 'solw'; did you mean 'slow'\?"):
        app.worker(lanes=["solw"])


@pytest.mark.parametrize(
    ("given", "guess"),
    [("spear", "in the setting backends; did you mean 'spare'"), ("redsi://x", "did you mean redis://")],
)
def test_a_mistyped_backend_gets_a_suggestion(given, guess):
    app, report = make(backends={"spare": "memory://spare"})
    with app, pytest.raises(UnknownBackend, match=guess):
        app.enqueue(report.build(), backend=given)
