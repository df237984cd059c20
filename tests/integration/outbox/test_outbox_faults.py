"""A relay that is killed between any two steps loses no job, and the next relay moves each job once."""

import signal
import subprocess
import sys

import pytest

from tenure import Tenure
from tenure.app.outbox import relay as relay_module
from tenure.backends.sql.outbox import database as database_module
from tenure.wire.signing import new_key
from tests.support.outboxes import enqueue_in_outbox, outbox_rows, outbox_url

KEY = new_key().dump()
BATCHES = 2  # of two jobs


class Killed(BaseException):
    """The end of the process, as far as the relay can tell: nothing handles it."""


class FaultPoints:
    """Counts the steps of a relay: each statement before and after it runs, each commit, each put; kills at one."""

    def __init__(self, kill_at):
        self.kill_at = kill_at
        self.passed = 0

    def step(self):
        self.passed += 1
        if self.passed == self.kill_at:
            raise Killed

    def around(self, call):
        def counted(*args, **kwargs):
            self.step()
            answer = call(*args, **kwargs)
            self.step()
            return answer

        return counted

    def in_transactions(self, transact):
        return self.around(lambda work: transact(lambda rows: work(self.around(rows))))


@pytest.fixture(params=(("sqlite", "redis"), ("postgres", "sqlite"), ("mariadb", "redis")), ids="-to-".join)
def kinds(request):
    """The kind of the application's database, and of the backend."""
    return request.param


@pytest.fixture
def outbox(request, kinds, tmp_path):
    return outbox_url(request, kinds[0], tmp_path)


@pytest.fixture
def app(request, kinds, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db" if kinds[1] == "sqlite" else request.getfixturevalue("redis_url")
    with Tenure(url, keys=[KEY]) as app:
        app.job(greet)
        yield app


def greet(name: str) -> None:
    """Never called here."""


def move_until_killed(app, outbox, kill_at, monkeypatch):
    """Run a relay that dies at a step; return whether it got so far."""
    points = FaultPoints(kill_at)
    (relay,) = app.outboxes.on(outbox)._relays()
    open_database = relay._open_database

    def opened():
        database = open_database()
        dialect = database._dialect
        dialect.read = points.around(dialect.read)
        dialect.transact = points.in_transactions(dialect.transact)
        return database

    relay._open_database = opened
    with monkeypatch.context() as patch:
        patch.setattr(app.backend, "put", points.around(app.backend.put))
        try:
            relay.drain()
        except Killed:
            return True
        finally:
            relay.close()
    return False


def test_killed_at_any_step_it_loses_no_job_and_duplicates_none(app, outbox, monkeypatch):
    monkeypatch.setattr(relay_module, "CLAIM_SECONDS", 0.0)  # the next relay need not wait
    monkeypatch.setattr(relay_module, "MAX_BATCH", 2)
    kill_at = 1
    while True:
        built = [app.define("greet", {"name": "n"}).build() for _ in range(2 * BATCHES)]
        handles = enqueue_in_outbox(app, outbox, built)

        was_killed = move_until_killed(app, outbox, kill_at, monkeypatch)
        app.outboxes.on(outbox).move()
        leases = app.backend.lease(["default"], limit=10, seconds=3600)

        assert sorted(lease.id for lease in leases) == sorted(handles), f"killed at step {kill_at}"
        assert outbox_rows(outbox) == []
        if not was_killed:
            break
        kill_at += 1
    assert kill_at > 20  # the kills did hit the steps


def test_a_relay_that_is_killed_hard_loses_no_job(tmp_path, monkeypatch):
    """SIGKILL arrives after the put and before the deletion: the worst moment."""
    monkeypatch.setattr(relay_module, "CLAIM_SECONDS", 0.0)
    outbox = outbox_url(None, "sqlite", tmp_path)
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Tenure(url, keys=[KEY]) as app:
        app.job(greet)
        handles = enqueue_in_outbox(app, outbox, [app.define("greet", {"name": "n"}).build() for _ in range(5)])
        code = (
            "import os, signal\n"
            "from tenure import Tenure\n"
            "from tenure.app.outbox import relay\n"
            "from tenure.backends.sql.outbox.database import OutboxDatabase\n"
            "relay.CLAIM_SECONDS = 0.0\n"
            "OutboxDatabase.delete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
            f"Tenure({url!r}, keys=[{KEY!r}], outboxes=[{outbox!r}]).outboxes.move()\n"
        )

        done = subprocess.run([sys.executable, "-c", code], check=False)
        left = outbox_rows(outbox)
        app.outboxes.on(outbox).move()
        leases = app.backend.lease(["default"], limit=10, seconds=3600)

    assert done.returncode == -signal.SIGKILL
    assert [id for (id,) in left] == handles
    assert [lease.id for lease in leases] == handles
    assert outbox_rows(outbox) == []


def test_a_deletion_that_failed_is_repeated_before_the_next_batch(app, tmp_path, monkeypatch):
    outbox = outbox_url(None, "sqlite", tmp_path)
    (relay,) = app.outboxes.on(outbox)._relays()
    enqueue_in_outbox(app, outbox, [app.define("greet", {"name": "n"}).build()])
    puts = []
    put = app.backend.put
    monkeypatch.setattr(app.backend, "put", lambda messages: puts.append(len(messages)) or put(messages))
    with monkeypatch.context() as patch:
        patch.setattr(database_module, "_DELETE", "DELETE FROM no_such_table")
        relay.beat()
    relay._outage.until = 0.0

    relay.beat()

    assert puts == [1]
    assert outbox_rows(outbox) == []
    relay.close()


def test_two_relays_share_the_work(app, outbox):
    built = [app.define("greet", {"name": "n"}).build() for _ in range(300)]
    handles = enqueue_in_outbox(app, outbox, built)
    relays = app.outboxes.on(outbox, outbox)._relays()

    mine, theirs = ({each.message.id for each in relay._opened().claim("", 50, 3600.0).entries} for relay in relays)

    assert len(mine) == len(theirs) == 50
    assert not mine & theirs
    assert mine | theirs <= set(handles)
    for relay in relays:
        relay.close()


def test_the_relay_waits_for_a_database_that_is_absent_and_then_moves_its_jobs(app, tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/app.db"
    (relay,) = app.outboxes.on(url)._relays()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relay._outage.delays, "next", lambda: 0.0)
        relay.beat()
        relay.beat()
        outbox = outbox_url(None, "sqlite", tmp_path)
        (handle,) = enqueue_in_outbox(app, outbox, [app.define("greet", {"name": "n"}).build()])
        relay.beat()
        relay.close()

    assert handle.state == "ready"
    assert len([each for each in caplog.records if "trying again" in each.message]) == 1
