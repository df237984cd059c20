"""A put of a known id at the moment its job ends, is replayed or is dead-lettered never stores it a second time."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import psycopg
import pymysql
import pytest

from tenure.backends.messages import Abandon, Ack, Message
from tenure.backends.records import NewDeadLetter
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.guards.store import Change, Decision
from tests.support.servers.fixtures import _login
from tests.support.waiting import WAIT_SECONDS

AGAIN = Message(id="again", queue="mail", body=b"{}", handler="greet")
NEW = Message(id="new", queue="mail", body=b"{}", handler="greet")
NO_CHANGE = Change(("nothing",), lambda _states, _now: Decision(None))
ROUNDS = 40


def url_of(request, kind, tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")


@pytest.fixture(params=["postgres", "mariadb"])
def url(request, tmp_path):
    return url_of(request, request.param, tmp_path)


@pytest.fixture
def backend(url):
    backend = open_backend(url, SystemClock())
    yield backend
    backend.close()


@pytest.fixture
def other(url):
    backend = open_backend(url, SystemClock())
    yield backend
    backend.close()


class Brake:
    """Holds the transactions of a backend just before they commit."""

    def __init__(self, backend, monkeypatch):
        self.reached, self.released = threading.Event(), threading.Event()
        executor, name = backend._dialect._executor, "transaction" if backend._dialect.name == "mysql" else "transact"
        real = getattr(executor, name)

        def braked(work, *options, **more):
            def slowly(rows):
                answer = work(rows)
                self.reached.set()
                assert self.released.wait(WAIT_SECONDS)
                return answer

            return real(slowly, *options, **more)

        monkeypatch.setattr(executor, name, braked)

    def race(self, slow, fast):
        """What both return when `fast` is called while `slow` has done everything but commit."""
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(slow)
            assert self.reached.wait(WAIT_SECONDS)
            second = threads.submit(fast)
            wait([second], timeout=0.5)  # it is over, or waits for the other: the database cannot say which for all
            self.released.set()
            return first.result(WAIT_SECONDS), second.result(WAIT_SECONDS)


def leased(backend):
    backend.put([AGAIN])
    return backend.lease(["mail"], limit=1, seconds=60)[0]


def kept(backend):
    return {state: count for state, count in backend.queues.counts()["mail"].items() if count}


@pytest.mark.parametrize("verb", ["ack", "abandon"])
def test_a_known_id_is_not_stored_again_while_its_settlement_commits(backend, other, monkeypatch, verb):
    lease = leased(backend)
    verdicts = {
        "ack": Ack(lease=lease, change=NO_CHANGE),
        "abandon": Abandon(lease=lease, reason="failed", change=NO_CHANGE),
    }
    brake = Brake(backend, monkeypatch)
    answers = brake.race(lambda: getattr(backend, verb)([verdicts[verb]]), lambda: other.put([AGAIN]))
    assert answers == ([], [])
    assert kept(other) == {"ack": {"done": 1}, "abandon": {"dead": 1}}[verb]


def test_a_known_id_is_not_stored_again_while_its_cancelling_commits(backend, other, monkeypatch):
    backend.put([AGAIN])
    brake = Brake(backend, monkeypatch)
    answers = brake.race(lambda: backend.control.cancel(["again"]), lambda: other.put([AGAIN]))
    assert answers == ({"again": "cancelled"}, [])
    assert kept(other) == {"cancelled": 1}


def test_a_known_id_is_not_stored_again_while_its_replay_commits(backend, other, monkeypatch):
    backend.abandon([Abandon(lease=leased(backend), reason="failed")])
    brake = Brake(backend, monkeypatch)
    answers = brake.race(lambda: backend.dead_letters.replay(["again"]), lambda: other.put([AGAIN]))
    assert answers == (["again"], [])
    assert kept(other) == {"ready": 1}


def test_an_id_that_is_being_dead_lettered_is_not_stored_as_a_job(backend, other, monkeypatch):
    brake = Brake(backend, monkeypatch)
    answers = brake.race(
        lambda: backend.dead_letters.add([NewDeadLetter(message=AGAIN, reason="moved", attempts=0)]),
        lambda: other.put([AGAIN]),
    )
    assert answers == (["again"], [])
    assert kept(other) == {"dead": 1}


def test_an_id_is_dead_lettered_once_however_many_do_it(backend, other, monkeypatch):
    burial = NewDeadLetter(message=AGAIN, reason="moved", attempts=0)
    brake = Brake(backend, monkeypatch)
    answers = brake.race(lambda: backend.dead_letters.add([burial]), lambda: other.dead_letters.add([burial]))
    assert answers == (["again"], [])
    assert kept(other) == {"dead": 1}


def test_a_callers_stricter_transaction_does_not_store_what_ended_since_it_began(postgres_url):
    backend = open_backend(postgres_url, SystemClock())
    lease = leased(backend)
    with psycopg.connect(postgres_url) as caller:
        caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        caller.execute("SELECT 1 FROM tenure_outcome")
        backend.ack([Ack(lease=lease)])
        assert backend.transactions.put(caller, [AGAIN]) == []
        assert backend.transactions.put(caller, [NEW]) == ["new"]
        caller.commit()
    assert kept(backend) == {"done": 1, "ready": 1}
    backend.close()


def test_a_callers_repeatable_read_on_mysql_sees_what_ended_since_it_began(mariadb_url):
    backend = open_backend(mariadb_url, SystemClock())
    lease = leased(backend)
    with pymysql.connect(**_login(mariadb_url)) as caller, caller.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tenure_outcome")
        backend.ack([Ack(lease=lease)])
        assert backend.transactions.put(caller, [AGAIN, NEW]) == ["new"]
        caller.commit()
    assert kept(backend) == {"done": 1, "ready": 1}
    backend.close()


def test_in_a_batch_only_the_ids_that_just_ended_are_left_out(backend, other, monkeypatch):
    lease = leased(backend)
    batch = [Message(id=id, queue="mail", body=b"{}", handler="greet") for id in ("one", "again", "two")]
    brake = Brake(backend, monkeypatch)
    answers = brake.race(lambda: backend.ack([Ack(lease=lease, change=NO_CHANGE)]), lambda: other.put(batch))
    assert answers == ([], ["one", "two"])
    assert kept(other) == {"done": 1, "ready": 2}
    assert [lease.id for lease in other.lease(["mail"], limit=3, seconds=60)] == ["one", "two"]


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "sqlite", "redis"])
def test_putting_and_ending_one_id_at_once_runs_it_once(kind, request, tmp_path):
    url = url_of(request, kind, tmp_path)
    worker, producer = open_backend(url, SystemClock()), open_backend(url, SystemClock())
    with ThreadPoolExecutor(2) as threads:
        for number in range(ROUNDS):
            message = Message(id=f"job-{number}", queue="mail", body=b"{}", handler="greet")
            producer.put([message])
            leases = worker.lease(["mail"], limit=10, seconds=60)
            assert [lease.id for lease in leases] == [message.id]
            ended = threads.submit(worker.ack, [Ack(lease=leases[0])])
            again = [threads.submit(producer.put, [message]).result(WAIT_SECONDS) for _ in range(3)]
            assert (ended.result(WAIT_SECONDS), again) == ([], [[], [], []])
    assert kept(worker) == {"done": ROUNDS}
    worker.close()
    producer.close()
