"""A transaction on a SQLite file is atomic, whatever other processes write at the same time."""

import fcntl
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tenure.backends.messages import Ack
from tenure.backends.url import open_backend
from tenure.errors import Unstorable
from tenure.events import Run
from tests.support.waiting import WAIT_SECONDS, eventually


@pytest.fixture
def backend(tmp_path, clock, monkeypatch):
    """On a file to which somebody else is connected too; `connection` is its own."""
    opened = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **kwargs: opened.append(connect(*args, **kwargs)) or opened[-1]
    )
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal", clock)) as backend:
        backend.connection = opened[0]
        yield backend


@pytest.fixture
def theirs(backend, tmp_path):
    """Somebody else's connection, once the file is there."""
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
        yield connection


def ids(leases):
    return [lease.id for lease in leases]


def test_a_job_that_joins_a_transaction_while_others_are_claimed_is_not_taken_along(backend, theirs, message):
    backend.put([message(1), message(2)])
    urgent = message(3, priority=9)

    def overtake(statement):
        if "tenure_grant" in statement:
            backend.connection.set_trace_callback(None)
            backend.transactions.put(theirs, [urgent])

    backend.connection.set_trace_callback(overtake)
    first = backend.lease(["mail"], limit=10, seconds=60)

    assert (len(first), urgent.id in ids(first)) == (2, False)
    assert ids(backend.lease(["mail"], limit=10, seconds=60)) == [urgent.id]


def test_a_thread_reads_while_another_waits_for_the_transaction_of_the_application(backend, theirs, message, tmp_path):
    """The thread that reads may be the one that must commit, as in a view or a job of a web application."""
    theirs.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as threads, (tmp_path / "jobs.db-slot").open("rb") as slot:
        waiting = threads.submit(backend.put, [message(1)])
        eventually(lambda: is_locked(slot))
        assert backend.jobs.find(message(1).id) is None
        theirs.execute("COMMIT")
        assert waiting.result(WAIT_SECONDS) == [message(1).id]
    assert backend.jobs.find(message(1).id).state == "ready"


def is_locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def plain(lease):
    """What nearly every verdict is: the job ran, and there is nothing else to say."""
    return Ack(lease=lease, seconds=0.25, run=Run("greet", 0, 0.25))


def test_of_plain_runs_those_are_settled_whose_leases_are_held(backend, clock, message):
    backend.put([message(1), message(2), message(3)])
    leases = backend.lease(["mail"], limit=3, seconds=60)
    backend.renew(leases[1:], seconds=600)
    clock.advance(61)
    backend.reap(["mail"])

    lost = backend.ack([plain(lease) for lease in leases])

    assert lost == [leases[0]]
    assert [backend.jobs.find(lease.id).state for lease in leases] == ["ready", "done", "done"]
    assert backend.jobs.find(leases[1].id).seconds == 0.25


def test_a_plain_run_that_somebody_wanted_cancelled_is_done(backend, message):
    backend.put([message(1)])
    leases = backend.lease(["mail"], limit=1, seconds=60)
    backend.control.cancel([leases[0].id])

    assert backend.ack([plain(leases[0])]) == []
    assert backend.jobs.find(leases[0].id).state == "done"


@pytest.mark.parametrize("settled", [plain, lambda lease: Ack(lease=lease)], ids=["plain", "any"])
def test_a_settlement_that_fails_half_way_changes_nothing(settled, backend, theirs, message):
    backend.put([message(1)])
    (lease,) = backend.lease(["mail"], limit=1, seconds=60)
    theirs.execute("CREATE TRIGGER no BEFORE DELETE ON tenure_lease BEGIN SELECT RAISE(ABORT, 'no'); END")

    with pytest.raises(Unstorable, match="no"):
        backend.ack([settled(lease)])

    assert theirs.execute("SELECT (SELECT count(*) FROM tenure_outcome), count(*) FROM tenure_lease").fetchone() == (
        0,
        1,
    )
    theirs.execute("DROP TRIGGER no")
    assert backend.ack([settled(lease)]) == []
    assert backend.jobs.find(lease.id).state == "done"
