"""The pages of jobs on a broker: with a store beside it, and without one."""

from secrets import token_hex

import pytest

from tenure import Tenure
from tenure.app.dashboard.access import everything
from tenure.app.dashboard.core import Dashboard
from tenure.app.dashboard.job import OneJobQuery
from tenure.app.dashboard.job_actions import CancelJobs, RetryJobs
from tenure.app.dashboard.jobs import JobsQuery
from tenure.errors import ActionRefused, JobNotFound
from tenure.wire.signing import new_key

OPS = everything("ops")


@pytest.fixture
def open_app(beanstalk_url):
    url, apps = f"{beanstalk_url}?prefix=test-{token_hex(6)}.", []

    def open_app(**settings):
        app = Tenure(url, keys=[new_key("k1").dump()], **{"environment": "development", **settings})
        apps.append(app)

        @app.job(max_retries=0)
        def burn(text: str) -> None:
            raise ValueError(text)

        @app.job
        def twice(value: int) -> int:
            return 2 * value

        return app

    yield open_app
    for app in apps:
        app.close()


def test_the_jobs_that_have_run_are_listed_and_shown(open_app, tmp_path):
    app = open_app(store=f"sqlite:///{tmp_path}/store.db")
    done, dead = app.define("twice", {"value": 2}).dispatch(), app.define("burn", {"text": "no ink"}).dispatch()
    app.worker(burst=True).run()
    dashboard = Dashboard(app)
    page = dashboard.read(JobsQuery(), OPS)
    assert {row.id for row in page.rows} == {done, dead}
    assert page.order == "states"
    assert [each.key for each in page.actions] == ["retry", "delete"]
    assert [row.id for row in dashboard.read(JobsQuery(text=("ink",)), OPS).rows] == [dead]
    shown = dashboard.read(OneJobQuery(id=dead), OPS)
    assert (shown.payload, shown.steps[1].error) == ({"text": "no ink"}, "no ink")
    assert dashboard.read(OneJobQuery(id=done), OPS).result == 4
    with pytest.raises(ActionRefused, match="can not cancel"):
        dashboard.preview(CancelJobs(ids=(dead,)), OPS)
    assert dashboard.act(RetryJobs(ids=(dead,)), OPS, "ink").counts == {"replayed": 1}
    dashboard.close()


def test_without_a_store_the_page_says_what_to_set(open_app):
    app = open_app(environment="production")
    dashboard = Dashboard(app)
    page = dashboard.read(JobsQuery(q="x"), OPS)
    assert (page.rows, page.status) == ((), 200)
    assert "Set store to a database or Redis" in page.unavailable
    with pytest.raises(JobNotFound):
        dashboard.read(OneJobQuery(id="nobody"), OPS)
    dashboard.close()
