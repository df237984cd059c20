"""Faults of SQL servers: no job is lost or runs twice, and waiting workers wake again."""

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from tenure.backends.messages import Abandon, Ack, Message, Nack
from tenure.backends.sql import migrations
from tenure.backends.sql.postgresql.connection import PostgresConnection
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import BackendUnavailable, Unstorable
from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import WAIT_SECONDS

SERVERS = ("postgres", "mariadb")


@pytest.fixture(params=SERVERS)
def direct(request):
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def proxy(direct):
    with FaultProxy(direct) as proxy:
        yield proxy


@pytest.fixture
def backend(proxy):
    """Its timeout is longer than a busy machine needs for an answer."""
    backend = open_backend(f"{proxy.url}?timeout=20", SystemClock())
    yield backend
    proxy.heal()
    backend.close()


@pytest.fixture
def impatient(proxy):
    backend = open_backend(f"{proxy.url}?timeout=2", SystemClock())
    yield backend
    proxy.heal()
    backend.close()


@pytest.fixture
def witness(direct):
    """The same database, seen without the faults."""
    backend = open_backend(direct, SystemClock())
    yield backend
    backend.close()


def make(number):
    return Message(id=f"job-{number:04d}", queue="mail", body=b"{}", handler="greet")


def take(backend, limit=10):
    return backend.lease(["mail"], limit=limit, seconds=60)


def test_a_connection_that_was_cut_while_it_was_idle_is_replaced(backend, proxy):
    backend.put([make(1)])
    proxy.reset()
    assert backend.put([make(2)]) == ["job-0002"]
    proxy.reset()
    leases = take(backend)
    proxy.reset()
    assert backend.ack([Ack(lease=lease) for lease in leases]) == []


def test_a_connection_of_postgresql_that_still_waits_for_an_answer_is_not_used_again(postgres_url, monkeypatch):
    """Where a socket breaks at an unlucky moment, the driver reports it and does not yet call the connection closed."""
    with closing(open_backend(postgres_url, SystemClock())) as backend:
        backend.put([make(1)])
        real, sent = PostgresConnection.wait, []

        def wait(connection, steps, *options):
            if not sent:
                sent.append(next(steps))
                raise psycopg.OperationalError("connection socket closed")
            return real(connection, steps, *options)

        monkeypatch.setattr(PostgresConnection, "wait", wait)
        assert len(take(backend)) == 1
        assert backend.put([make(2)]) == ["job-0002"]


def test_a_put_whose_answer_is_lost_is_stored_once(backend, proxy, witness):
    backend.put([make(1)])
    proxy.cut_after = 0
    assert backend.put([make(2)]) == ["job-0002"]
    assert witness.queues.counts()["mail"]["ready"] == 2


def test_a_message_whose_job_has_ended_when_its_put_is_tried_again_is_stored_once(backend, proxy, witness, monkeypatch):
    backend.put([make(1)])
    connections = backend._dialect._executor._connections
    taken, take_connection = [], connections.take

    def end_between_the_tries():
        if len(taken) == 1:  # the second try
            witness.ack([Ack(lease=lease) for lease in take(witness)])
        taken.append(None)
        return take_connection()

    monkeypatch.setattr(connections, "take", end_between_the_tries)
    proxy.cut_after = 0
    assert backend.put([make(2)]) == ["job-0002"]
    counts = witness.queues.counts()["mail"]
    assert (counts["ready"], counts["done"]) in [(0, 2), (1, 1)]  # cut after the commit, or before


@pytest.mark.parametrize("verb", ["ack", "nack", "abandon"])
def test_a_settlement_whose_answer_is_lost_is_known_to_have_happened(backend, proxy, witness, verb):
    backend.put([make(1)])
    (lease,) = take(backend)
    verdict = {"ack": Ack(lease=lease), "nack": Nack(lease=lease), "abandon": Abandon(lease=lease, reason="failed")}
    proxy.cut_after = 0
    assert getattr(backend, verb)([verdict[verb]]) == []
    state = witness.jobs.find("job-0001").state
    assert state == {"ack": "done", "nack": "ready", "abandon": "dead"}[verb]


@pytest.mark.parametrize("bytes_before", [0, 1, 40, 200, 1000, 4000])
def test_wherever_a_connection_is_cut_every_job_ends_once(backend, proxy, witness, bytes_before):
    witness.put([make(number) for number in range(40)])
    acked = []
    for _ in range(60):
        proxy.cut_after = bytes_before
        try:
            leases = take(backend, 4)
            proxy.cut_after = bytes_before
            lost = backend.ack([Ack(lease=lease) for lease in leases])
            acked += [lease.id for lease in leases if lease not in lost]
        except BackendUnavailable:
            proxy.heal()
    proxy.heal()
    witness.reap(["mail"])
    held = witness.queues.counts()["mail"]
    assert sum(held.values()) == 40
    assert held["dead"] == 0
    assert len(acked) == len(set(acked))
    assert set(acked) <= {
        f"job-{number:04d}" for number in range(40) if witness.jobs.find(f"job-{number:04d}").state == "done"
    }


@pytest.mark.timing
def test_a_server_that_is_silent_is_given_up_on_in_time(impatient, proxy):
    impatient.put([make(1)])
    proxy.swallow_replies = True
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable):
        impatient.renew(take_through(impatient, proxy), seconds=5)
    assert time.monotonic() - begun < 10
    proxy.heal()
    assert impatient.put([make(2)]) == ["job-0002"]


def take_through(backend, proxy):
    proxy.swallow_replies = False
    leases = take(backend)
    proxy.swallow_replies = True
    return leases


def test_a_slow_network_is_only_slow(backend, proxy):
    proxy.latency = 0.05
    backend.put([make(number) for number in range(20)])
    leases = take(backend, 20)
    assert backend.ack([Ack(lease=lease) for lease in leases]) == []


class Load:
    """A producer and a worker that do not give up, and what they were told."""

    def __init__(self, backend):
        self.backend = backend
        self.stopping, self.produced = threading.Event(), threading.Event()
        self.accepted, self.done = [], []

    def produce(self):
        for number in itertools.count():
            if self.stopping.is_set():
                self.produced.set()  # only now is `accepted` complete
                return
            self.until_it_answers(lambda number=number: self.backend.put([make(number)]))
            self.accepted.append(f"job-{number:04d}")

    def work(self):
        while not self.produced.is_set() or len(set(self.done)) < len(self.accepted):
            leases = self.until_it_answers(lambda: self.backend.lease(["mail"], limit=5, seconds=2, wait=0.2))
            lost = self.until_it_answers(lambda: self.backend.ack([Ack(lease=lease) for lease in leases]))  # noqa: B023
            self.done += [lease.id for lease in leases if lease not in lost]
            self.until_it_answers(lambda: self.backend.reap(["mail"]))

    def until_it_answers(self, verb):
        while True:
            try:
                return verb()
            except BackendUnavailable:
                time.sleep(0.05)  # the server is down


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_server_that_was_killed_under_load_loses_nothing_it_acknowledged(kind, own_server):
    server = own_server(kind, durable=True)
    backend = open_backend(f"{database_on(kind, server.url)}?timeout=5", SystemClock())
    load = Load(backend)
    with ThreadPoolExecutor(2) as threads:
        roles = [threads.submit(load.produce), threads.submit(load.work)]
        time.sleep(1)  # under load
        server.kill()
        time.sleep(0.5)  # and for a while without it
        server.start()
        time.sleep(1)  # and again under load
        load.stopping.set()
        for role in roles:
            role.result(WAIT_SECONDS)
    counts = backend.queues.counts()["mail"]
    backend.close()
    assert set(load.accepted) == set(load.done)
    assert len(load.done) == len(set(load.done))
    assert {state: count for state, count in counts.items() if count} == {"done": len(load.done)}


def database_on(kind, url):
    if kind == "postgresql":
        return url
    import pymysql

    from tests.support.servers.fixtures import _login

    with pymysql.connect(**_login(url)) as connection:
        connection.cursor().execute("CREATE DATABASE tenure")
    return urlsplit(url)._replace(path="/tenure").geturl()


def test_a_fork_does_not_share_a_connection(direct):
    backend = open_backend(direct, SystemClock())
    backend.put([make(1)])
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            backend.put([make(2)])
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    backend.put([make(3)])
    assert sorted(lease.id for lease in take(backend)) == ["job-0001", "job-0002", "job-0003"]
    backend.close()


def test_ten_workers_that_start_at_once_migrate_once(direct):
    with ThreadPoolExecutor(10) as threads:
        backends = list(threads.map(lambda _: open_backend(direct, SystemClock()), range(10)))
    taken = [backend.schema.steps_taken for backend in backends]
    for backend in backends:
        backend.close()
    dialect = urlsplit(direct).scheme
    assert sorted(taken, key=len) == [*[[]] * 9, [name for _, name, _ in migrations.steps(dialect)]]


@pytest.mark.parametrize("value", [{"due": 2**70}, {"delay": 1e20}], ids=str)
@pytest.mark.parametrize("fixture", [None, "postgres_url", "mariadb_url"])
def test_a_value_that_no_column_can_hold_is_refused_for_good_and_stores_nothing(
    request, tmp_path, message, fixture, value
):
    url = request.getfixturevalue(fixture) if fixture else f"sqlite:///{tmp_path}/jobs.db"
    with closing(open_backend(url, SystemClock())) as backend:
        with pytest.raises(Unstorable, match="cannot store a value"):
            backend.put([message(1), message(2, **value)])
        assert backend.queues.counts() == {}
