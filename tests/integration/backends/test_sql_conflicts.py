"""The server rolls a transaction back: Tenure repeats its own, and the caller repeats the caller's."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pymysql
import pytest

from tenure.backends.messages import Abandon, Ack, Message, Nack
from tenure.backends.sql.mysql import connection
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tests.support.servers.fixtures import _login
from tests.support.waiting import WAIT_SECONDS

VICTIM = (psycopg.errors.DeadlockDetected, pymysql.OperationalError)  # as the driver says it to its caller


def make(id):
    return Message(id=id, queue="mail", body=b"{}", handler="greet")


def kept(backend):
    return {state: count for state, count in backend.queues.counts()["mail"].items() if count}


@pytest.fixture(params=["postgres", "mariadb"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def backend(url):
    backend = open_backend(f"{url}?timeout=60", SystemClock())
    yield backend
    backend.close()


@pytest.fixture
def caller(url):
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            yield connection
    else:
        with pymysql.connect(**_login(url)) as connection:
            yield connection


def test_a_put_that_was_the_victim_of_a_deadlock_is_tried_again(backend, caller):
    """The caller holds `b` and wants `a`; a put holds `a` and wants `b`. One of them is sacrificed, whichever it is."""
    with ThreadPoolExecutor(1) as threads:
        assert backend.transactions.put(caller, [make("b")]) == ["b"]
        put = threads.submit(backend.put, [make("a"), make("b"), make("c")])
        assert waits(put)
        try:
            stored = backend.transactions.put(caller, [make("a")])
            caller.commit()
        except VICTIM:
            caller.rollback()
            stored = []
        ours = put.result(WAIT_SECONDS)
    assert ours == (["c"] if stored else ["a", "b", "c"])
    assert kept(backend) == {"ready": 3}


def test_settlements_that_cross_a_deadlock_all_happen(backend, caller, url):
    """The caller locks the second job and wants the first; an ack of both holds the first and wants the second."""
    backend.put([make("a"), make("b")])
    first, second = backend.lease(["mail"], limit=2, seconds=60)
    assert backend.renew([first, second], seconds=60) == []  # from now on each lease has a row
    lock = "SELECT 1 FROM tenure_lease WHERE {key} = %s FOR UPDATE"
    lock = lock.format(key="key" if url.startswith("postgresql") else "`key`")
    with ThreadPoolExecutor(1) as threads, caller.cursor() as cursor:
        cursor.execute(lock, (second.token,))
        ack = threads.submit(backend.ack, [Ack(lease=first), Ack(lease=second)])
        assert waits(ack)
        with suppress(*VICTIM):
            cursor.execute(lock, (first.token,))
        caller.rollback()
        assert ack.result(WAIT_SECONDS) == []
    assert kept(backend) == {"done": 2}


VERBS = {
    "ack": lambda backend, leases: backend.ack([Ack(lease=lease) for lease in leases]),
    "nack": lambda backend, leases: backend.nack([Nack(lease=lease) for lease in leases]),
    "abandon": lambda backend, leases: backend.abandon([Abandon(lease=lease, reason="timeout") for lease in leases]),
    "renew": lambda backend, leases: backend.renew(leases, seconds=120),
    "put": lambda backend, leases: backend.put([make("0"), make("last")]),
}
ENDS = {"ack": "done", "nack": "ready", "abandon": "dead", "renew": "leased", "put": "leased"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_mariadb_chose_as_the_victim_of_a_deadlock_is_repeated(mariadb_url, verb, monkeypatch, eventually):
    """The caller has changed many rows, so that the server rolls back the verb, which has changed few: error 1213."""
    refused = []
    real = connection.was_rolled_back
    monkeypatch.setattr(connection, "was_rolled_back", lambda error: refused.append(error.args[0]) or real(error))
    backend = open_backend(f"{mariadb_url}?timeout=60", SystemClock())
    backend.put([make("a"), make("b")])
    leases = backend.lease(["mail"], limit=2, seconds=60)
    assert backend.renew(leases, seconds=60) == []  # from now on each lease has a row
    lock = "SELECT 1 FROM tenure_lease WHERE `key` = %s FOR UPDATE"
    with (
        ThreadPoolExecutor(1) as threads,
        pymysql.connect(**_login(mariadb_url)) as caller,
        pymysql.connect(**_login(mariadb_url), autocommit=True) as watcher,
        caller.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE weight (number INT)")
        cursor.executemany("INSERT INTO weight VALUES (%s)", [(number,) for number in range(300)])
        backend.transactions.put(caller, [make("last")])
        cursor.execute(lock, (leases[1].token,))
        done = threads.submit(VERBS[verb], backend, leases)
        eventually(lambda: someone_waits(watcher))
        if verb == "put":
            backend.transactions.put(caller, [make("0")])
        else:
            cursor.execute(lock, (leases[0].token,))
        caller.rollback()
        answer = done.result(WAIT_SECONDS)
    assert refused == [1213]
    assert answer == (["0", "last"] if verb == "put" else [])
    assert {backend.jobs.find(lease.id).state for lease in leases} == {ENDS[verb]}
    backend.close()


def someone_waits(watcher):
    """Whether a transaction on this database waits for a lock of another."""
    time.sleep(0.15)  # the server tells something new only when nobody has asked for a tenth of a second
    with watcher.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM information_schema.innodb_trx JOIN information_schema.processlist AS process "
            "ON process.id = trx_mysql_thread_id WHERE trx_state = 'LOCK WAIT' AND process.db = database()"
        )
        return cursor.fetchone()[0]


def test_a_lock_that_is_given_late_is_waited_for_again(mariadb_url, monkeypatch):
    refused = []
    real = connection.was_rolled_back
    backend = open_backend(mariadb_url, SystemClock())
    backend.put([make("a")])
    (lease,) = backend.lease(["mail"], limit=1, seconds=60)
    with pymysql.connect(**_login(mariadb_url)) as caller, caller.cursor() as cursor:

        def release_after_two(error):
            refused.append(error.args[0])
            if len(refused) == 2:
                caller.rollback()
            return real(error)

        monkeypatch.setattr(connection, "was_rolled_back", release_after_two)
        cursor.execute("SELECT 1 FROM tenure_lease WHERE `key` = %s FOR UPDATE", (lease.token,))
        assert backend.ack([Ack(lease=lease)]) == []
    assert refused == [1205, 1205]  # the server waits a second for a lock
    assert kept(backend) == {"done": 1}
    backend.close()


def test_a_serialization_failure_of_our_own_is_tried_again(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"ALTER DATABASE {owner.info.dbname} SET default_transaction_isolation = 'repeatable read'")
    backend = open_backend(f"{postgres_url}?listen=off", SystemClock())  # behind a pooler the default counts
    backend.put([make("a")])
    (lease,) = backend.lease(["mail"], limit=1, seconds=60)
    with psycopg.connect(postgres_url) as caller, ThreadPoolExecutor(1) as threads:
        caller.execute("UPDATE tenure_lease SET expires = expires + 1")
        renewal = threads.submit(backend.renew, [lease], seconds=60)
        assert waits(renewal)
        caller.commit()  # what the renewal saw is not so any more
        assert renewal.result(WAIT_SECONDS) == []
    backend.close()


def waits(future):
    """It is still under way after a moment: it waits for a lock, which not every server lets others see."""
    with pytest.raises(TimeoutError):
        future.result(0.5)
    return True
