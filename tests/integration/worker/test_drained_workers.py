"""A drained worker leases nothing until it is resumed; its running jobs and all other workers go on."""

import threading
import time
from contextlib import contextmanager

import pytest

from tenure import Tenure
from tenure.app.doctor.collect import collect_facts
from tenure.errors import WorkerNotFound
from tenure.wire.signing import new_key
from tests.support.waiting import STOP_SECONDS, WAIT_SECONDS, eventually


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch):
    monkeypatch.setattr("tenure.worker.guard_holder.PAUSE_POLL_SECONDS", 0.05)
    monkeypatch.setattr("tenure.worker.heartbeat.HEARTBEAT_INTERVAL", 0.05)


@pytest.fixture(params=["memory", "sqlite", "postgresql", "redis"])
def app(request, tmp_path):
    if request.param == "postgresql":
        url, empty = request.getfixturevalue("postgres_place")
        empty()
    elif request.param == "redis":
        url = request.getfixturevalue("redis_url")
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"}[request.param]
    with Tenure(url, keys=[new_key().dump()]) as app:
        yield app


@pytest.fixture
def job(app):
    """A job that says when it has started and waits until it may end."""

    class Held:
        started, released = threading.Event(), threading.Event()

    @app.job
    def note() -> None: ...

    @app.job
    def hold() -> None:
        Held.started.set()
        assert Held.released.wait(WAIT_SECONDS)

    yield Held
    Held.released.set()


@contextmanager
def running(app, *queues):
    worker = app.worker(*queues)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        eventually(lambda: record(app, worker))
        yield worker
    finally:
        worker.stop()
        thread.join(STOP_SECONDS)


def record(app, worker):
    return next((each for each in app.parts().workers.alive() if each.id == worker.name), None)


def drain(app, worker, reason=None):
    """Drain a worker, and wait until it reports that it drains and the lease call that it was in has ended."""
    assert app.guards.drain_worker(worker.name, reason)
    found = eventually(lambda: (found := record(app, worker)).draining_since and found)
    next_turn(worker)
    return found


def next_turn(worker):
    """Wait until the leaser begins another turn."""
    leaser, moment = worker._lanes[0].leaser, time.monotonic()
    eventually(lambda: leaser.ticked > moment)


def state(app, id):
    return app.backend.jobs.find(id).state


def test_a_drained_worker_leases_nothing_until_it_is_resumed(app, job):
    with running(app) as worker:
        drain(app, worker)
        id = app.define("note").dispatch()
        next_turn(worker)
        next_turn(worker)
        assert state(app, id) == "ready"
        assert collect_facts(app, has_handlers=True).unserved == {"default": 1}
        assert app.guards.resume_worker(worker.name)
        eventually(lambda: state(app, id) == "done")
        eventually(lambda: not record(app, worker).draining_since)


def test_a_job_that_runs_goes_on_while_its_worker_drains(app, job):
    id, next_id = app.define("hold").dispatch(), app.define("note").dispatch()
    with running(app) as worker:
        assert job.started.wait(WAIT_SECONDS)
        drain(app, worker)
        assert state(app, id) == "leased"
        job.released.set()
        eventually(lambda: state(app, id) == "done")
        eventually(lambda: not record(app, worker).jobs)
        assert state(app, next_id) == "ready"
        assert app.backend.jobs.find(next_id).attempts == 0


def test_other_workers_take_the_jobs_that_a_drained_worker_leaves(app, job):
    with running(app) as worker:
        drain(app, worker)
        id = app.define("note").dispatch()
        with running(app):
            eventually(lambda: state(app, id) == "done")
        assert not record(app, worker).counts


def test_a_drain_tells_since_when_and_why_and_the_first_reason_stays(app, job):
    with running(app) as worker:
        told = drain(app, worker, "new disk")
        assert not app.guards.drain_worker(worker.name, "later")
        found = app.guards.draining(worker.name, "host:1:none")
        assert {id: each.reason for id, each in found.items()} == {worker.name: "new disk"}
        assert (told.draining_since, told.draining_reason) == (found[worker.name].since, "new disk")
        assert abs(told.draining_since - app.clock.now()) < 60_000_000
        assert (app.guards.resume_worker(worker.name), app.guards.resume_worker(worker.name)) == (True, False)
        assert app.guards.draining(worker.name) == {}


def test_a_worker_that_ends_leaves_no_drain_behind(app, job):
    with running(app) as worker:
        drain(app, worker)
        assert [each.text() for each in app.guards.search("drain:")] == ["draining"]
    assert app.guards.search("drain:") == []


def test_an_id_of_which_no_worker_is_alive_is_refused(app, job):
    with running(app) as worker:
        with pytest.raises(WorkerNotFound, match=f"did you mean '{worker.name}'"):
            app.guards.drain_worker(f"{worker.name}x")
        with pytest.raises(WorkerNotFound, match="no worker 'nobody' is alive; `tenure workers` lists"):
            app.guards.resume_worker("nobody")
    with pytest.raises(WorkerNotFound):
        app.guards.drain_worker(worker.name)
    assert app.guards.search("drain:") == []


def test_what_a_drained_worker_of_a_users_own_loop_claims_is_nothing(app, job):
    manager = app.manager()
    worker = manager.register_worker()
    id = app.define("note").dispatch()
    app.guards.drain_worker(worker.id, "stop")
    assert manager.next_job([], worker) is None
    assert manager.touch(worker, debounce=0).draining_reason == "stop"
    app.guards.resume_worker(worker.id)
    assert eventually(lambda: manager.next_job([], worker)).id == id
    app.guards.drain_worker(worker.id)
    manager.unregister(worker)
    assert app.guards.search("drain:") == []
