"""Another client falls silent inside a transaction that has locked guards: no healthy worker loses a job by it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import psycopg
import pymysql
import pytest

from tenure import Tenure
from tenure.errors import BackendUnavailable
from tenure.events import LeaseLost
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.guard import take_guards
from tenure.guards.states import Holder
from tenure.guards.store import Change
from tenure.wire.signing import new_key
from tests.support.servers.fixtures import _login
from tests.support.waiting import WAIT_SECONDS, eventually

LEASE = 3.0
LOCK_ALL = "SELECT * FROM tenure_guard FOR UPDATE"


@pytest.fixture(params=["postgres", "mariadb"])
def server(request, monkeypatch):
    monkeypatch.setenv("TENURE_KEYS", new_key().dump())
    url = request.getfixturevalue(f"{request.param}_url")
    connect = {"postgres": lambda: psycopg.connect(url), "mariadb": lambda: pymysql.connect(**_login(url))}

    @contextmanager
    def silent_neighbour():
        with connect[request.param]() as connection:
            connection.cursor().execute(LOCK_ALL)
            yield
            connection.rollback()

    return SimpleNamespace(url=url, silent_neighbour=silent_neighbour)


@pytest.fixture
def app(server):
    with Tenure(server.url, lease=LEASE) as app:
        yield app


@pytest.fixture
def handler(app):
    """A job that runs until it is released, on two lanes: one with a lock, one without a guard."""
    started, release, ran = threading.Semaphore(0), threading.Event(), []

    @app.job(name="hold")
    def hold(number: int) -> None:
        ran.append(number)
        started.release()
        assert release.wait(WAIT_SECONDS)

    yield SimpleNamespace(job=hold, started=started, release=release, ran=ran)
    release.set()


@pytest.fixture
def work(app):
    """Starts a worker in a thread, one for each queue."""
    running = []

    def start(queue):
        worker = app.worker(queue)
        thread = threading.Thread(target=worker.run)
        thread.start()
        running.append((worker, thread))

    yield start
    for worker, thread in running:
        worker.stop()
        thread.join(WAIT_SECONDS)


@pytest.mark.timing
def test_a_neighbour_that_is_silent_for_longer_than_a_lease_costs_no_job(app, server, handler, work):
    lost = []
    app.listen(lambda event: lost.append(event) if isinstance(event, LeaseLost) else None)
    plain = handler.job.using(queue="plain").enqueue(number=1)
    locked = handler.job.using(queue="locked", single_instance=True).enqueue(number=2)
    waiting = handler.job.using(queue="locked", single_instance=True).enqueue(number=3)
    work("plain")
    work("locked")
    for _ in range(2):
        assert handler.started.acquire(timeout=WAIT_SECONDS)
    with server.silent_neighbour():
        threading.Event().wait(2 * LEASE)  # in which nothing should happen
        assert {app.backend.jobs.find(id).state for id in (plain, locked)} == {"leased"}
        assert app.backend.reap(["plain", "locked"]) == []
    handler.release.set()
    eventually(lambda: {app.backend.jobs.find(id).state for id in (plain, locked, waiting)} == {"done"})
    assert (sorted(handler.ran), lost) == ([1, 2, 3], [])


@pytest.mark.timing
def test_a_job_that_ends_while_its_guard_is_locked_keeps_its_lease_until_it_is_settled(app, server, handler, work):
    locked = handler.job.using(single_instance=True).enqueue(number=1)
    work("default")
    assert handler.started.acquire(timeout=WAIT_SECONDS)
    with server.silent_neighbour():
        handler.release.set()
        threading.Event().wait(2 * LEASE)
        assert app.backend.jobs.find(locked).state == "leased"
        assert app.backend.reap(["default"]) == []
    eventually(lambda: app.backend.jobs.find(locked).state == "done")
    assert handler.ran == [1]


def test_a_client_of_ours_that_is_silent_inside_a_transaction_is_ended_by_the_server(app):
    """Its process is stopped, or its network is down: here it waits where it should decide."""
    lock, holds, go_on = ConcurrencyLimit("lock:report"), threading.Event(), threading.Event()
    by_silent, by_other = (take_guards([lock], Holder(name, 1, 60.0)) for name in ("silent", "other"))

    def decide_late(states, now):
        holds.set()
        go_on.wait(WAIT_SECONDS)
        return by_silent.decide(states, now)

    def taken():
        with suppress(BackendUnavailable):  # nobody waits long for the lock of a guard
            return app.backend.guards.change([by_other]) == [None]

    with ThreadPoolExecutor(1) as threads:
        silent = threads.submit(app.backend.guards.change, [Change(by_silent.keys, decide_late)])
        assert holds.wait(WAIT_SECONDS)
        eventually(taken)
        go_on.set()
        with pytest.raises(BackendUnavailable):
            silent.result(WAIT_SECONDS)
