"""How a worker waits on Redis for a delayed job: it ends the blocking command itself, and loses no wake-up."""

import threading
from contextlib import closing
from types import SimpleNamespace

import pytest
import redis
from redis.connection import Connection

from tenure.backends.redis import connections
from tenure.backends.redis.connections import ClusterClient, ServerClient, open_server
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance.messages import QUEUE, make, numbers
from tests.support.waiting import WAIT_SECONDS, eventually

KEY = "queue:wakes"


@pytest.fixture
def server(own_server):
    """A server that no other test uses: the tests count its commands."""
    return own_server("redis")


@pytest.fixture
def admin(server):
    with redis.Redis.from_url(server.url) as connection:
        yield connection


@pytest.fixture
def client(server):
    with closing(open_server(server.url, 20.0)) as client:
        yield client


def ended_waits(admin):
    return admin.info("commandstats").get("cmdstat_client|unblock", {"calls": 0})["calls"]


def blocked(admin):
    return admin.info("clients")["blocked_clients"]


def test_the_wait_for_a_delayed_job_can_be_ended_by_the_client(server, admin):
    with closing(open_backend(server.url, SystemClock())) as backend:
        backend.put([make(1, delay=5.0)])  # longer than a busy machine needs to begin the wait
        assert numbers(backend.lease([QUEUE], limit=1, seconds=60, wait=WAIT_SECONDS)) == [1]
    assert admin.info("commandstats")["cmdstat_client|id"]["calls"] >= 1  # it can end its wait


def test_a_wait_without_a_delayed_job_costs_no_further_command(server, admin):
    with closing(open_backend(server.url, SystemClock())) as backend:
        backend.put([make(1, delay=600)])
        assert backend.lease([QUEUE], limit=1, seconds=60, wait=0.2) == []
    stats = admin.info("commandstats")
    assert ended_waits(admin) == 0
    assert "cmdstat_client|id" not in stats
    assert stats["cmdstat_blpop"]["calls"] <= 2  # the first one gets the wake-up of the put


def test_a_wake_up_at_the_end_of_the_wait_is_not_lost(admin, client, monkeypatch):
    def push_and_ask(self, commands):
        admin.rpush(KEY, "1")
        return ask_each(self, commands)

    ask_each = ServerClient.ask_each
    monkeypatch.setattr(ServerClient, "ask_each", push_and_ask)
    monkeypatch.setattr(Connection, "can_read", lambda *_, **__: False)  # the time is over
    assert client.wait([KEY], 5.0, is_exact=True)
    assert ended_waits(admin) == 1
    assert not admin.exists(KEY)


def test_a_wake_up_during_an_exact_wait_ends_it(admin, client, monkeypatch):
    monkeypatch.setattr(connections, "_MAX_BLOCK_SECONDS", WAIT_SECONDS)
    pushed = threading.Thread(target=lambda: eventually(lambda: blocked(admin)) and admin.rpush(KEY, "1"))
    pushed.start()
    assert client.wait([KEY], WAIT_SECONDS, is_exact=True)
    pushed.join()
    assert ended_waits(admin) == 0


def test_waits_use_one_connection_and_leave_none_blocked(admin, client):
    for _ in range(5):
        assert not client.wait([KEY], 0.002, is_exact=True)
        assert not client.wait([KEY], 0.002)
    assert blocked(admin) == 0
    assert admin.info("clients")["connected_clients"] == 3  # one waits, one ends the wait, and that of this test


def test_a_user_who_may_not_end_commands_waits_for_the_server(server, admin):
    admin.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all", "-client|unblock")
    with closing(open_server(server.url.replace("://", "://worker:secret@"), 5.0)) as client:
        assert not client.wait([KEY], 0.01, is_exact=True)
    assert blocked(admin) == 0


def test_a_connection_that_breaks_during_an_exact_wait_is_not_used_again(server, admin):
    with closing(open_backend(server.url, SystemClock())) as backend:
        backend.put([make(1, delay=5.0)])  # longer than a busy machine needs to begin the wait
        leases = []
        worker = threading.Thread(
            target=lambda: leases.extend(backend.lease([QUEUE], limit=1, seconds=60, wait=WAIT_SECONDS))
        )
        worker.start()
        eventually(lambda: admin.info("commandstats").get("cmdstat_client|id"))
        admin.client_kill_filter(_type="normal", skipme=True)
        worker.join(WAIT_SECONDS)
        assert numbers(leases) == [1]
    assert blocked(admin) == 0


def test_two_threads_that_reach_for_the_last_free_connection_both_get_one(client):
    class JustTaken(list):
        def __len__(self):
            return 1

    client._free = JustTaken()
    assert client.ask("PING") == b"PONG"
    client._free = [*client._free]


@pytest.mark.parametrize(
    ("seconds", "sent"), [(0.3, [("BLPOP", KEY, pytest.approx(0.2))]), (0.01, [("LPOP", KEY), ("LPOP", KEY)])]
)
def test_an_exact_wait_on_a_cluster_polls_at_its_end(seconds, sent):
    commands = []
    cluster = SimpleNamespace(execute_command=lambda *command: commands.append(command))
    ClusterClient(cluster, None).wait([KEY], seconds, is_exact=True)
    assert commands == sent
