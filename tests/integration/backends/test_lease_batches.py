"""Leases on fresh jobs are one row until something other than an ack happens to one of them."""

import re
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pymysql
import pytest

from tenure.backends.messages import Abandon, Ack, Message, Nack
from tenure.backends.sql.batches import expand
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.definition.context import Progress
from tenure.testing import FakeClock
from tests.support.fault_proxy import FaultProxy
from tests.support.servers.fixtures import _login
from tests.support.waiting import WAIT_SECONDS

PLACES = ("sqlite", "postgres", "mariadb")
EXPANDING = {
    "nack": lambda backend, lease: backend.nack([Nack(lease=lease)]),
    "abandon": lambda backend, lease: backend.abandon([Abandon(lease=lease, reason="failed")]),
    "renew": lambda backend, lease: backend.renew([lease], seconds=60),
    "progress": lambda backend, lease: backend.control.save_progress([(lease, Progress(1, 2))]),
    "cancel": lambda backend, lease: backend.control.cancel([lease.id]),
}


@pytest.fixture(params=PLACES)
def url(request, tmp_path):
    return (
        f"sqlite:///{tmp_path}/jobs.db"
        if request.param == "sqlite"
        else request.getfixturevalue(f"{request.param}_url")
    )


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(url, clock):
    backend = open_backend(url, clock)
    yield backend
    backend.close()


def put(backend, count):
    backend.put([Message(id=f"job-{n:04d}", queue="mail", body=b"{}", handler="greet") for n in range(count)])


def take(backend, limit=10):
    return backend.lease(["mail"], limit=limit, seconds=60)


def acks(leases):
    return [Ack(lease=lease) for lease in leases]


def stored(backend):
    """How many rows of tenure_batch and of tenure_lease there are."""
    tables = ("tenure_batch", "tenure_lease")
    return tuple(backend._dialect.read(f"SELECT count(*) FROM {table}", {})[0][0] for table in tables)


def states(backend):
    return Counter({state: count for state, count in backend.queues.counts()["mail"].items() if count})


def test_a_batch_is_one_row_until_its_last_member_is_acked(backend):
    put(backend, 10)
    leases = take(backend)
    assert stored(backend) == (1, 0)
    assert backend.ack(acks(leases[:9])) == []
    assert stored(backend) == (1, 0)
    assert backend.ack(acks(leases[9:])) == []
    assert stored(backend) == (0, 0)


def test_a_job_that_is_leased_alone_has_a_row_of_its_own(backend):
    put(backend, 1)
    take(backend)
    assert stored(backend) == (0, 1)


@pytest.mark.parametrize("verb", EXPANDING)
def test_every_other_verb_makes_rows_of_those_that_have_not_ended(backend, verb):
    put(backend, 5)
    leases = take(backend)
    backend.ack(acks(leases[:2]))
    EXPANDING[verb](backend, leases[2])
    assert stored(backend) == (0, 2 if verb in ("nack", "abandon") else 3)
    assert backend.ack(acks(leases[3:])) == []
    assert states(backend)["done"] == 4


def test_a_batch_without_members_disappears_when_it_expires(backend, clock):
    """It stays when two threads ack the last members at once."""
    put(backend, 4)
    leases = take(backend)
    leases[0].batch.left.add(-1)
    assert backend.ack(acks(leases)) == []
    assert stored(backend) == (1, 0)
    clock.advance(61)
    assert backend.reap(["mail"]) == []
    assert stored(backend) == (0, 0)
    assert states(backend) == {"done": 4}


def test_a_member_whose_records_were_trimmed_does_not_come_back(backend, clock):
    put(backend, 3)
    leases = take(backend)
    backend.ack(acks(leases[:2]))
    assert backend.jobs.trim("done", clock.now() + 1, 10) == 2
    clock.advance(61)
    assert [each.id for each in backend.reap(["mail"])] == ["job-0002"]
    assert states(backend) == {"ready": 1}


def test_members_of_batches_that_expire_together_are_all_listed(backend):
    priorities = {0: 5, 1: 6, 2: 6, 3: 5}
    backend.put(
        [
            Message(id=f"job-{number:04d}", queue="mail", body=b"{}", handler="greet", priority=priority)
            for number, priority in priorities.items()
        ]
    )
    take(backend, 2)  # the second and the third
    take(backend, 2)
    shown, cursor = [], None
    while True:
        page, cursor = backend.jobs.page("leased", "mail", limit=1, cursor=cursor)
        shown += [job.id for job in page]
        if cursor is None:
            break
    assert shown == [f"job-{number:04d}" for number in priorities]


def test_many_batches_expire_in_several_steps(backend, clock):
    put(backend, 100)
    for _ in range(50):
        take(backend, 2)
    clock.advance(61)
    assert len(backend.reap(["mail"])) + len(backend.reap(["mail"])) + len(backend.reap(["mail"])) == 100
    assert stored(backend) == (0, 0)


def test_a_batch_that_another_worker_expanded_is_acked_all_the_same(backend, url, clock):
    other = open_backend(url, clock)
    put(backend, 4)
    leases = take(backend)
    other.control.cancel(["job-0001"])
    assert stored(backend) == (0, 4)
    assert backend.ack(acks(leases)) == []
    assert states(backend) == {"done": 4}
    other.close()


@pytest.fixture(params=["postgres", "postgres, repeatable read", "mariadb"])
def server(request):
    """The URL of a server, and a connection of a client that settles by hand."""
    name, _, isolation = request.param.partition(", ")
    url = request.getfixturevalue(f"{name}_url")
    if isolation:  # behind a pooler no session has settings of its own
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(f"ALTER DATABASE {owner.info.dbname} SET default_transaction_isolation = '{isolation}'")
        url += "?listen=off"
    connection = pymysql.connect(**_login(url)) if name == "mariadb" else psycopg.connect(url.partition("?")[0])
    yield url, connection
    connection.close()


def test_an_ack_that_waited_for_an_expansion_ends_the_rows_of_it(server):
    """Otherwise the jobs of that ack would be leased as well as done, and run again."""
    url, caller = server
    backend = open_backend(url, SystemClock())
    put(backend, 4)
    leases = take(backend)
    with ThreadPoolExecutor(1) as threads, caller.cursor() as cursor:

        def run(statement, given):
            text = statement.replace(":batches", "(%s)")
            cursor.execute(
                re.sub(r"\b(key|rank)\b", r"`\1`", text) if url.startswith("mysql") else text, given["batches"]
            )
            return cursor.fetchall() if cursor.description else []

        expand(run, [leases[0].batch.key])
        acking = threads.submit(backend.ack, acks(leases))
        with pytest.raises(TimeoutError):
            acking.result(0.5)
        caller.commit()
        assert acking.result(WAIT_SECONDS) == []
    assert (states(backend), stored(backend)) == ({"done": 4}, (0, 0))
    backend.close()


def test_an_expansion_that_waited_for_an_ack_sees_the_outcomes_of_it(server):
    """Otherwise the jobs of that ack would run again."""
    url, caller = server
    backend = open_backend(url, SystemClock())
    put(backend, 4)
    leases = backend.lease(["mail"], limit=4, seconds=0)
    quote = "`" if url.startswith("mysql") else ""
    key = f"{quote}key{quote}"
    with ThreadPoolExecutor(1) as threads, caller.cursor() as cursor:
        cursor.execute(f"SELECT {key} FROM tenure_batch FOR UPDATE")
        for lease in leases[:2]:
            cursor.execute(
                f"INSERT INTO tenure_outcome ({key}, queue, state, attempts, crashes, fence, finished, size) "
                "VALUES (%s, 'mail', 'done', 0, 0, 1, 1, 2)",
                (lease.token,),
            )
        reaping = threads.submit(backend.reap, ["mail"])
        with pytest.raises(TimeoutError):
            reaping.result(0.5)
        caller.commit()
        assert sorted(each.id for each in reaping.result(WAIT_SECONDS)) == ["job-0002", "job-0003"]
    assert states(backend) == {"done": 2, "ready": 2}
    backend.close()


@pytest.mark.parametrize("bytes_before", [0, 1, 40, 200, 1000])
@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_an_ack_whose_answer_is_lost_ends_each_member_once(request, name, bytes_before):
    url = request.getfixturevalue(f"{name}_url")
    with FaultProxy(url) as proxy:
        backend = open_backend(f"{proxy.url}?timeout=20", SystemClock())
        put(backend, 12)
        leases = take(backend, 12)
        for part in (leases[:4], leases[4:8], leases[8:]):
            proxy.cut_after = bytes_before
            assert backend.ack(acks(part)) == []
        proxy.heal()
        assert states(backend) == {"done": 12}
        assert stored(backend) == (0, 0)
        backend.close()


def test_a_batch_whose_keys_were_damaged_does_not_hide_the_others(tmp_path):
    backend = open_backend(f"sqlite:///{tmp_path}/jobs.db", SystemClock())
    put(backend, 6)
    first, second = take(backend, 3), take(backend, 3)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE tenure_batch SET keys = 'garbage' WHERE key = ?", (first[0].token,))
    assert states(backend)["leased"] == 3
    assert backend.ack(acks([*first, *second])) == []
    assert states(backend) == {"done": 6}
    backend.close()
