"""Workers leave a paused queue alone until it is resumed; its jobs are charged nothing."""

import threading

import pytest

from tenure import Tenure
from tenure.wire.signing import new_key
from tenure.worker.guard_holder import PauseReader
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture(params=["memory", "sqlite", "redis", "postgresql", "mysql"])
def app(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TENURE_KEYS", new_key().dump())
    if request.param in ("postgresql", "mysql"):
        url, empty = request.getfixturevalue("postgres_place" if request.param == "postgresql" else "mariadb_place")
        empty()
    elif request.param == "redis":
        url = request.getfixturevalue("redis_url")
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}[request.param]
    with Tenure(url) as app:

        @app.job
        def note() -> None: ...

        yield app


def states(app, *ids):
    return [app.backend.jobs.find(id).state for id in ids]


def test_a_paused_queue_is_not_leased_from_until_it_is_resumed(app):
    paused = app.define("note").queue("mail").dispatch()
    other = app.define("note").queue("reports").dispatch()
    assert app.guards.pause("mail", "the provider is down")
    app.worker("mail", "reports", burst=True).run()
    assert states(app, paused, other) == ["ready", "done"]
    assert app.backend.jobs.find(paused).fence == 0
    assert app.guards.resume("mail")
    app.worker("mail", "reports", burst=True).run()
    assert states(app, paused) == ["done"]


def test_a_worker_whose_queues_are_all_paused_ends_when_it_is_to_end_empty(app):
    app.define("note").dispatch()
    app.guards.pause("default")
    worker = app.worker(burst=True)
    timer = threading.Timer(WAIT_SECONDS, worker.stop)
    timer.start()
    assert not worker.run()
    assert worker.ready.is_set()
    assert timer.is_alive()
    timer.cancel()


def test_a_pause_tells_since_when_and_why_and_the_first_reason_stays(app):
    assert app.guards.pause("mail", "first")
    assert not app.guards.pause("mail", "second")
    found = app.guards.paused("mail", "reports")
    assert {queue: state.reason for queue, state in found.items()} == {"mail": "first"}
    assert abs(found["mail"].since - app.clock.now()) < 60_000_000
    assert (app.guards.resume("mail"), app.guards.resume("mail")) == (True, False)


def test_a_running_worker_hears_of_a_pause_and_of_its_end(app, monkeypatch):
    monkeypatch.setattr("tenure.worker.guard_holder.PAUSE_POLL_SECONDS", 0.05)
    done, seen = threading.Event(), []
    app.listen(lambda event: (seen.append(event), done.set()) if type(event).__name__ == "Settled" else None)
    app.guards.pause("default")
    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        app.define("note").dispatch()
        assert worker.ready.wait(WAIT_SECONDS)
        assert not done.wait(0.3)
        app.guards.resume("default")
        assert done.wait(WAIT_SECONDS)
    finally:
        worker.stop()
        thread.join()


def test_a_store_that_does_not_answer_leaves_the_gate_as_it_was(app, monkeypatch, caplog):
    from tenure.errors import BackendUnavailable

    class Store:
        down = False

        def read(self, keys):
            if self.down:
                raise BackendUnavailable("gone fishing")
            return app.backend.guards.read(keys)

    monkeypatch.setattr("tenure.worker.guard_holder.PAUSE_POLL_SECONDS", 0.0)
    app.guards.pause("mail")
    store = Store()
    gate = PauseReader(store)
    assert gate.filter_out(["mail", "reports"]) == ["reports"]
    store.down = True
    assert gate.filter_out(["mail", "reports"]) == ["reports"]
    assert "gone fishing" in caplog.text
