"""How workers are woken on PostgreSQL: by a notification after the commit, and by polls where none is sent."""

import threading
import time
from contextlib import closing, contextmanager

import pytest

from tenure.backends.messages import Nack
from tenure.backends.sql.postgresql import connection, dialect, notifications
from tenure.backends.sql.postgresql.claims import UNTIL_WORK
from tenure.backends.sql.postgresql.notifications import NOTIFY
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.errors import BackendUnavailable
from tenure.testing.conformance.messages import QUEUE, id_of, make, numbers
from tests.support.waiting import WAIT_SECONDS, eventually


@pytest.fixture
def backend(postgres_url):
    with closing(open_backend(postgres_url, SystemClock())) as backend:
        backend.lease([QUEUE], limit=1, seconds=60, wait=0.001)  # creates the tables, and listens
        yield backend


@pytest.fixture
def producer(postgres_url, backend):
    with closing(open_backend(postgres_url, SystemClock())) as producer:
        yield producer


@pytest.fixture
def sent(monkeypatch):
    """The statements of this process from now on, with their parameters."""
    statements, rows_on = [], connection.rows_on

    def recorded(session, statement, parameters):
        statements.append((statement, parameters))
        return rows_on(session, statement, parameters)

    monkeypatch.setattr(connection, "rows_on", recorded)
    return statements


@pytest.fixture
def no_idle_polls(monkeypatch):
    monkeypatch.setattr(notifications, "IDLE_POLL_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(dialect, "IDLE_POLL_SECONDS", WAIT_SECONDS)


@contextmanager
def waiting(backend, leases):
    """A worker that waits for one job; the block must cause it."""

    def work():
        began = time.monotonic()
        leases.extend(backend.lease([QUEUE], limit=1, seconds=60, wait=WAIT_SECONDS))
        seconds.append(time.monotonic() - began)

    seconds = []
    worker = threading.Thread(target=work)
    worker.start()
    yield
    worker.join(WAIT_SECONDS)
    assert seconds
    assert seconds[0] < WAIT_SECONDS / 2


def test_a_put_notifies_after_its_commit_and_at_most_once_an_interval(producer, sent, monkeypatch):
    monkeypatch.setattr(notifications, "NOTIFY_INTERVAL", WAIT_SECONDS)
    for number in range(3):
        producer.put([make(number)])
    assert [statement for statement, _ in sent].count(NOTIFY) == 1
    puts = [statement for statement, _ in sent if statement != NOTIFY]
    assert ["pg_notify" in statement for statement in puts] == [False] * 3
    assert sent[1][0] == NOTIFY


def test_a_put_succeeds_if_its_notification_fails(producer, monkeypatch):
    run = connection.PostgresExecutor.run

    def run_but_notify(self, work, again=True):
        def checked(rows):
            return work(lambda statement, parameters: refuse() if statement == NOTIFY else rows(statement, parameters))

        return run(self, checked, again)

    def refuse():
        raise BackendUnavailable("the connection is lost")

    monkeypatch.setattr(connection.PostgresExecutor, "run", run_but_notify)
    assert producer.put([make(1)]) == [id_of(1)]


@pytest.mark.usefixtures("no_idle_polls")
def test_a_notification_wakes_a_waiting_worker(backend, producer):
    for number in range(3):
        leases = []
        with waiting(backend, leases):
            producer.put([make(number)])
        assert numbers(leases) == [number]


@pytest.mark.usefixtures("no_idle_polls")
def test_a_worker_finds_a_job_that_was_not_notified_because_another_just_was(backend, producer, monkeypatch):
    monkeypatch.setattr(notifications, "NOTIFY_INTERVAL", WAIT_SECONDS / 4)
    taken, leases = [], []
    with waiting(backend, taken):
        producer.put([make(1)])
    with waiting(backend, leases):
        producer.put([make(2)])
    assert numbers(leases) == [2]


@pytest.mark.usefixtures("no_idle_polls")
def test_a_worker_that_was_notified_of_a_job_of_another_finds_the_next(backend, producer, sent, monkeypatch):
    monkeypatch.setattr(notifications, "NOTIFY_INTERVAL", WAIT_SECONDS / 4)
    leases = []
    with waiting(backend, leases):
        producer._dialect._notifier.notify([QUEUE])  # as for a job that another worker has taken
        producer.put([make(2)])
    assert numbers(leases) == [2]
    assert [statement for statement, _ in sent].count(NOTIFY) == 1


@pytest.mark.usefixtures("no_idle_polls")
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_returned_job_wakes_a_waiting_worker(backend, producer, delay):
    producer.put([make(1)])
    (lease,) = producer.lease([QUEUE], limit=1, seconds=60)
    leases = []
    with waiting(backend, leases):
        assert producer.nack([Nack(lease=lease, delay=delay)]) == []
    assert numbers(leases) == [1]


@pytest.mark.usefixtures("no_idle_polls")
def test_a_rescheduled_job_wakes_a_waiting_worker_after_its_transaction(backend, producer, sent):
    producer.put([make(1, delay=600)])
    leases = []
    with waiting(backend, leases):
        sent.clear()
        time.sleep(notifications.NOTIFY_INTERVAL)  # the notification of the put counts too
        producer.control.reschedule([id_of(1)])
    assert numbers(leases) == [1]
    assert NOTIFY in [statement for statement, _ in sent]


@pytest.mark.usefixtures("no_idle_polls")
def test_a_notified_worker_claims_without_asking_first(backend, producer, sent):
    leases = []
    with waiting(backend, leases):
        eventually(lambda: [statement for statement, _ in sent] == [UNTIL_WORK, UNTIL_WORK])  # now it waits
        producer.put([make(1)])
    assert numbers(leases) == [1]
    statements = [statement for statement, _ in sent]
    assert UNTIL_WORK not in statements[statements.index(NOTIFY) :]


def test_a_notification_of_another_queue_costs_a_worker_no_query(backend, producer, sent):
    assert backend.lease([QUEUE], limit=1, seconds=60, wait=0.001) == []
    before = len(sent)
    producer._dialect._notifier.notify(["elsewhere"])
    assert backend.lease([QUEUE], limit=1, seconds=60, wait=0.05) == []
    assert [statement for statement, _ in sent[before:]] == [NOTIFY, UNTIL_WORK, UNTIL_WORK]


def test_an_idle_worker_sends_two_queries_for_each_wait(backend, sent, monkeypatch):
    monkeypatch.setattr(notifications, "NOTIFY_INTERVAL", -1.0)  # no news
    for _ in range(3):
        assert backend.lease([QUEUE], limit=1, seconds=60, wait=0.05) == []
    assert len(sent) <= 3 * 2


def test_a_listening_connection_that_breaks_is_replaced(backend, producer):
    ended = producer._dialect.read(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE :q",
        {"q": "LISTEN%"},
    )
    assert ended == [(True,)]
    leases = []
    with waiting(backend, leases):
        producer.put([make(1)])
    assert numbers(leases) == [1]
