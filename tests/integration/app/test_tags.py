"""Tags from the option to the handler: they travel in the signed message; followers and schedules have their own."""

from datetime import UTC, datetime

import pytest

from tenure import Context, Tenure
from tenure.testing import FakeClock


@pytest.fixture
def app():
    with Tenure("memory://", clock=FakeClock(datetime(2026, 1, 1, tzinfo=UTC))) as app:
        yield app


def tags_of(app, id):
    return app.backend.jobs.find(id).tags


def test_a_job_has_the_tags_of_its_handler_unless_it_brings_its_own(app):
    @app.job(tags="reports")
    def report() -> None: ...

    assert tags_of(app, report.enqueue()) == ("reports",)
    assert tags_of(app, report.using(tags=["monthly", "reports", "monthly"]).enqueue()) == ("monthly", "reports")
    assert tags_of(app, app.define("report", {}).tags("a", "b").dispatch()) == ("a", "b")
    assert [tags_of(app, id) for id in app.enqueue_many(report.build() for _ in range(3))] == [("reports",)] * 3


def test_a_handler_class_may_declare_tags(app):
    class Export:
        tags = ("exports", "slow")

        def handle(self) -> None: ...

    app.register("export", Export)
    assert tags_of(app, app.define("export").dispatch()) == ("exports", "slow")


def test_a_handler_reads_the_tags_of_its_job(app):
    seen = []

    @app.job
    def show(ctx: Context) -> None:
        seen.append(ctx.tags)

    show.using(tags="billing").enqueue()
    show.enqueue()
    app.worker(burst=True).run()
    assert seen == [("billing",), ()]


def test_followers_have_their_own_tags(app):
    @app.job
    def first() -> None: ...

    @app.job(tags="second")
    def second() -> None: ...

    first.using(tags="first", then=second.build(), chain=[second.using(tags=["c", "d"]).build()]).enqueue()
    app.worker(burst=True).run()
    found = [
        record.tags for tag in ("first", "second", "c", "d") for record in app.backend.jobs.tagged(tag, limit=9)[0]
    ]
    assert found == [("first",), ("second",), ("c", "d"), ("c", "d")]


def test_the_jobs_of_a_schedule_have_its_tags(app):
    @app.job
    def report() -> None: ...

    app.schedule(report.using(tags="nightly").build()).named("report").every_minute()
    app.cron.run(only=["report"])
    assert [record.handler for record in app.backend.jobs.tagged("nightly", limit=9)[0]] == ["report"]


def test_a_replayed_job_runs_with_its_tags(app):
    seen = []

    @app.job
    def fail(ctx: Context) -> None:
        seen.append(ctx.tags)
        raise ValueError

    id = fail.using(tags="billing").enqueue()
    app.worker(burst=True).run()
    app.dead_letters().replay([id])
    app.worker(burst=True).run()
    assert seen == [("billing",)] * 2
