"""Fixtures of the tests of the dashboard: a shop with jobs of all states, on several backends."""

import pytest

from tenure import Backoff, Tenure
from tenure.app.dashboard.core import Dashboard
from tenure.wire.signing import new_key
from tests.support.backend_urls import empty_backend


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return empty_backend(request, tmp_path)


@pytest.fixture
def app(url):
    with Tenure(url, keys=[new_key("k1").dump()], aliases={"post": "mail"}) as app:
        yield app


@pytest.fixture
def add(app):
    @app.job
    def add(a: int, token: str = "") -> dict[str, int]:
        return {"sum": a + 1}

    return add


@pytest.fixture
def fail(app):
    @app.job(queue="mail", max_retries=1, backoff=Backoff("fixed", base=3600))
    def fail(text: str) -> None:
        raise ValueError(text)

    return fail


@pytest.fixture
def shop(app, add, fail):
    """By name the ids of jobs: two done, two dead, one in backoff, one delayed, one cancelled and two ready."""
    jobs = {
        "first": add.using(tags=["tenant=1"]).enqueue(1),
        "second": add.using(name="sum", tags=["tenant=1", "big"]).enqueue(2),
        "dead": fail.using(max_retries=0).enqueue("out of paper"),
        "gone": fail.using(max_retries=0, name="order 7").enqueue("connection refused"),
        "failed": fail.enqueue("no ink"),
    }
    app.worker("default", "mail", burst=True).run()
    jobs["delayed"] = add.using(queue="mail", delay="1h").enqueue(3)
    jobs["cancelled"] = add.enqueue(5)
    app.jobs.cancel(jobs["cancelled"])
    jobs["ready"] = add.using(name="next").enqueue(4)
    jobs["last"] = add.using(queue="mail").enqueue(6)
    return {name: handle.id for name, handle in jobs.items()}


@pytest.fixture
def dashboard(app):
    dashboard = Dashboard(app)
    yield dashboard
    dashboard.close()


@pytest.fixture
def names(shop):
    """The names of jobs, from their ids or from what has one."""
    by_id = {id: name for name, id in shop.items()}
    return lambda found: [by_id.get(getattr(each, "id", each), "new") for each in found]
