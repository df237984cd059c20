"""The Redis backend keeps every promise on a cluster: no script touches two slots."""

import time
from secrets import token_hex

import pytest
import redis

from tenure.backends.opening import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import BackendConformance, LedgerConformance
from tests.servers import Missing, started
from tests.servers.fixtures import absent


@pytest.fixture(scope="module")
def server():
    """A cluster of one, which checks slots as a larger one does."""
    try:
        with started("redis", more=["--cluster-enabled", "yes"]) as server:
            with redis.Redis.from_url(server.url) as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                    time.sleep(0.05)
            yield server
    except Missing as missing:
        raise absent(missing) from missing


class TestRedisCluster(BackendConformance):
    capabilities = frozenset({"Inspectable", "DeadLetters", "Maintained", "Steerable", "Scannable", "Shared"})
    expected_skips = 26  # those with guards, and with jobs that are unique

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, server):
        return f"{server.url}?cluster=yes&prefix={token_hex(6)}"

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()


class TestRedisClusterLedger(LedgerConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 2  # those that put jobs in the same step

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, server):
        return f"{server.url}?cluster=yes&prefix={token_hex(6)}"

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()
