"""The gauges that a worker passes to a collector, which keeps the last value of each."""

import sqlite3
from contextlib import closing

import pytest

from tenure import Tenure
from tenure.app.gauges import GaugeReporter
from tenure.app.outbox import create_table
from tenure.errors import BackendUnavailable


@pytest.fixture
def app(tmp_path):
    backends = {"reports": f"sqlite:///{tmp_path}/reports.db"}
    with Tenure(f"sqlite:///{tmp_path}/jobs.db", backends=backends, outboxes=[f"sqlite:///{tmp_path}/shop.db"]) as app:
        app.job(name="greet")(lambda: None)
        yield app


@pytest.fixture
def kept(app):
    """The last values, by name and labels, after each call of the reporter."""
    values = {}

    def keep(name, value, **labels):
        values[name, labels.get("queue"), labels.get("backend"), labels.get("state")] = value

    reporter = GaugeReporter(keep, app)

    def report():
        reporter.report()
        return values

    return report


def test_a_queue_and_an_outbox_that_became_empty_are_reported_once_more(app, kept, tmp_path):
    app.define("greet").queue("mail").dispatch()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        create_table(connection)
        app.outbox(connection).enqueue(app.define("greet").build(), backend="reports")
        connection.commit()
    queue = ("tenure_queue_jobs", "mail", None, "ready")
    outbox = ("tenure_outbox_jobs", None, "reports", None)
    assert [kept()[each] for each in (queue, outbox)] == [1, 1]
    app.define("greet").dispatch()  # there is still a queue to report about
    app.worker("mail", burst=True).run()
    app.outboxes.move()
    assert [kept()[each] for each in (queue, outbox)] == [0, 0]
    assert kept()["tenure_queue_oldest_age_seconds", "mail", None, None] == 0


def test_a_queue_that_cannot_be_read_keeps_its_last_value(app, kept, monkeypatch):
    app.define("greet").queue("mail").dispatch()
    queue = ("tenure_queue_jobs", "mail", None, "ready")
    assert kept()[queue] == 1

    def fail(**options):
        raise BackendUnavailable("no server")

    with monkeypatch.context() as broken:
        broken.setattr(app.backend.queues, "counts", fail)
        assert kept()["tenure_backend_up", None, None, None] == 0
        assert kept()[queue] == 1
    app.define("greet").dispatch()
    app.worker("mail", burst=True).run()
    assert kept()[queue] == 0
