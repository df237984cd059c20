"""The backend is away for longer than a lease while a handler returns: the job is settled, and its key is final."""

import sqlite3
import threading
from contextlib import closing, contextmanager
from secrets import token_hex

import pytest

from tenure import Tenure
from tenure.events import LeaseLost, Reaped, Settled, Status
from tenure.wire.signing import new_key
from tests.integration.backends.test_sql_faults import database_on
from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import WAIT_SECONDS, eventually

LEASE = 3.0
AWAY = 1.5 * LEASE


class PausedServer:
    """A server that is stopped where it stands, and continues."""

    def __init__(self, server, url):
        self.url = url
        self._server = server

    @contextmanager
    def away(self):
        self._server.pause()
        try:
            yield
        finally:
            self._server.resume()


class LockedFile:
    """A SQLite file that another process keeps to itself."""

    def __init__(self, path):
        self.url = f"sqlite:///{path}?synchronous=normal"
        self._path = path

    @contextmanager
    def away(self):
        with closing(sqlite3.connect(self._path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield


@pytest.fixture(params=["sqlite", "redis", "postgresql", "mariadb"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TENURE_KEYS", new_key().dump())
    if request.param == "sqlite":
        return LockedFile(tmp_path / "jobs.db")
    server = request.getfixturevalue("own_server")(request.param)
    url = database_on(request.param, server.url) if request.param == "mariadb" else server.url
    return PausedServer(server, url)


@pytest.fixture
def unstarted_jobs_wait():
    """Not here: a busy worker that has leased the second job must hand it back, so that the other worker gets it."""


class Fleet:
    """Two workers in threads, each with an app of its own, and what they did."""

    def __init__(self, **settings):
        self.events = []
        self.started, self.release = threading.Event(), threading.Event()
        self.ran = []
        self.apps = [self._app(**settings) for _ in range(2)]
        self.workers = [app.worker("default") for app in self.apps]
        self.threads = [threading.Thread(target=worker.run) for worker in self.workers]

    def _app(self, **settings):
        app = Tenure(lease=LEASE, **settings)
        app.listen(self.events.append)

        @app.job(name="charge", idempotency_key="order-7")
        def charge(number: int) -> None:
            self.ran.append(number)
            self.started.set()
            assert self.release.wait(WAIT_SECONDS)

        self.job = charge
        return app

    def charge(self, number):
        return self.apps[0].define("charge", {"number": number}).idempotency_key("order-7").dispatch()

    def start(self, index):
        self.threads[index].start()

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def settled(self):
        """How each job that has ended was settled."""
        each = [settlement for event in self.of(Settled) for settlement in event.settlements]
        return {one.id: one for one in each if one.status in (Status.ACKED, Status.SKIPPED_IDEMPOTENT)}

    def close(self):
        self.release.set()
        for worker, thread in zip(self.workers, self.threads, strict=True):
            worker.stop()
            if thread.ident:
                thread.join(WAIT_SECONDS)
        for app in self.apps:
            app.close()
        self.workers, self.threads, self.apps = [], [], []


@pytest.fixture
def fleet():
    made = []

    def make(**settings):
        made.append(Fleet(**settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.timing
def test_a_job_that_ended_while_the_backend_was_away_is_settled_once_and_its_key_is_final(place, fleet):
    both = fleet(url=place.url)
    first = both.charge(1)
    both.start(0)
    assert both.started.wait(WAIT_SECONDS)
    second = both.charge(2)
    both.start(1)
    find = both.apps[0].backend.jobs.find
    eventually(lambda: find(second).state == "parked")
    with place.away():
        both.release.set()
        threading.Event().wait(AWAY)  # longer than the lease, in which nothing can happen
    eventually(lambda: {find(first).state, find(second).state} == {"done"})
    assert both.ran == [1]
    assert (find(first).fence, find(second).reason) == (1, f"skipped-idempotent: job {first} has done it")
    assert (both.of(Reaped), [event for event in both.of(LeaseLost) if event.verb == "settle"]) == ([], [])


@pytest.mark.timing
@pytest.mark.parametrize("kind", ["redis", "postgres", "mariadb"])
def test_no_worker_reaps_a_job_that_ended_while_the_server_refused_connections(kind, request, monkeypatch, fleet):
    monkeypatch.setenv("TENURE_KEYS", new_key().dump())
    with FaultProxy(request.getfixturevalue(f"{kind}_url")) as proxy:
        both = fleet(url=proxy.url)
        id = both.job.using(idempotency_key=None).enqueue(number=1)
        both.start(0)
        assert both.started.wait(WAIT_SECONDS)
        both.start(1)
        assert both.workers[1].ready.wait(WAIT_SECONDS)
        proxy.refuse = True
        proxy.reset()
        both.release.set()
        threading.Event().wait(AWAY)
        proxy.heal()
        eventually(lambda: both.settled().get(id))
        both.close()
    assert (both.ran, both.of(Reaped)) == ([1], [])


@pytest.mark.timing
def test_beside_a_broker_a_success_is_recorded_before_the_broker_hears_of_it(beanstalk_url, tmp_path, fleet):
    with FaultProxy(beanstalk_url) as proxy:
        both = fleet(
            url=f"{proxy.url}?prefix=test-{token_hex(6)}.",
            store=f"sqlite:///{tmp_path}/store.db",
            environment="development",
        )
        first = both.charge(1)
        both.start(0)
        assert both.started.wait(WAIT_SECONDS)
        second = both.charge(2)
        both.start(1)
        assert both.workers[1].ready.wait(WAIT_SECONDS)
        proxy.refuse = True
        proxy.reset()  # the broker gives the job of a lost connection to the next worker
        both.release.set()
        threading.Event().wait(AWAY)
        proxy.heal()
        settled = both.settled
        eventually(lambda: {first, second} <= settled().keys())
    assert both.ran == [1]
    assert settled()[first].status == Status.ACKED
    assert settled()[second].status == Status.SKIPPED_IDEMPOTENT
