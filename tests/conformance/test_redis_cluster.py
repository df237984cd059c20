"""The Redis backend keeps every promise on a cluster: no script touches two slots."""

import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from secrets import token_hex

import pytest
import redis

from tenure.testing.conformance import BackendConformance, LedgerConformance
from tenure.testing.conformance.capabilities import EVERY
from tests.support.opened_backend import Opened
from tests.support.servers import Missing, free_port, started
from tests.support.servers.fixtures import absent

# Where the slots of each server begin; chosen so that the suite's two queues are on different ones.
BOUNDS = [0, 4500, 11_000, 16_384]


@pytest.fixture(scope="module")
def server():
    """One of three servers that share the slots: a script that left its slot would ask for what another one has."""
    with ExitStack() as started_servers:
        try:
            servers = [started_servers.enter_context(start_one()) for _ in BOUNDS[1:]]
        except Missing as missing:
            raise absent(missing) from missing
        clients = [started_servers.enter_context(redis.Redis.from_url(each.url)) for each in servers]
        for client, (first, end) in zip(clients, pairwise(BOUNDS), strict=True):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[0].port, servers[0].cluster_port)
        while not all(agrees(client) for client in clients):
            time.sleep(0.05)
        yield servers[0]


@contextmanager
def start_one():
    port = free_port()
    with started("redis", more=["--cluster-enabled", "yes", "--cluster-port", str(port)]) as server:
        server.cluster_port = port
        yield server


def agrees(client):
    info = client.cluster("INFO")
    return (info["cluster_state"], info["cluster_slots_ok"], info["cluster_size"]) == ("ok", str(BOUNDS[-1]), "3")


class OnCluster(Opened):
    @pytest.fixture
    def url(self, server):
        return f"{server.url}?cluster=yes&prefix={token_hex(6)}"


class TestRedisCluster(OnCluster, BackendConformance):
    capabilities = EVERY - {"guards", "parking", "payloads", "recent", "unique"}
    # Those with guards, unique jobs, the payloads of ended jobs, and jobs in the order of enqueue.
    expected_skips = 63


class TestRedisClusterLedger(OnCluster, LedgerConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 3  # those that put jobs in the same step
