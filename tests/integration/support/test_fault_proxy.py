"""The fault proxy misbehaves as told; the tests that use it rely on that."""

import asyncio
import socket
import threading
import time

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def proxy(redis_url):
    with FaultProxy(redis_url) as proxy:
        yield proxy


def connected(proxy, seconds):
    return redis.Redis(port=proxy.port, socket_timeout=seconds, retry=Retry(NoBackoff(), 0))  # each fault must show


@pytest.fixture
def client(proxy):
    with connected(proxy, WAIT_SECONDS) as client:
        yield client


def test_a_healthy_proxy_is_not_noticed(client):
    assert client.echo("x" * 200_000) == b"x" * 200_000


def test_latency_is_paid_each_way(proxy, client):
    client.ping()
    proxy.latency = 0.05
    start = time.monotonic()
    client.ping()
    assert time.monotonic() - start >= 0.1


@pytest.mark.parametrize("direction", ["swallow_requests", "swallow_replies"])
def test_what_is_swallowed_is_never_answered(proxy, client, direction):
    client.ping()
    setattr(proxy, direction, True)
    with connected(proxy, seconds=0.3) as impatient, pytest.raises(redis.TimeoutError):
        impatient.ping()
    proxy.heal()
    assert client.ping()


@pytest.mark.parametrize("limit", ["cut_after", "cut_requests_after"])
def test_a_connection_is_cut_after_so_many_bytes(proxy, client, limit):
    client.ping()
    setattr(proxy, limit, 3)
    with pytest.raises(redis.ConnectionError):
        client.ping()
    proxy.heal()
    assert client.ping()


def test_a_reset_breaks_open_connections_and_new_ones_work(proxy, client):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=WAIT_SECONDS) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(10) == b"+PONG\r\n"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    assert client.ping()


def test_a_connection_that_is_on_its_way_to_the_server_is_ended_with_the_proxy(redis_url, monkeypatch):
    called, connect = threading.Event(), asyncio.open_connection

    async def connect_late(*address):
        called.set()
        await asyncio.sleep(0.2)  # until the proxy has begun to end
        return await connect(*address)

    monkeypatch.setattr(asyncio, "open_connection", connect_late)
    with FaultProxy(redis_url) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port))
        assert called.wait(WAIT_SECONDS)
    client.close()
    assert asyncio.all_tasks(proxy._loop) == set()


def test_a_refusing_proxy_lets_nobody_in(proxy, client):
    proxy.refuse = True
    with pytest.raises(redis.ConnectionError):
        client.ping()
