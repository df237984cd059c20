"""The Redis backend keeps every promise, across processes too."""

import pytest

from tenure.backends.redis import connections
from tenure.testing.conformance import (
    ArchiveConformance,
    BackendConformance,
    LedgerConformance,
    StoreConformance,
)
from tenure.testing.conformance.capabilities import EVERY
from tests.support.opened_backend import Opened


class OnRedis(Opened):
    @pytest.fixture
    def url(self, redis_url, monkeypatch):
        monkeypatch.setattr(connections, "_MAX_BLOCK_SECONDS", 600.0)  # only a wake-up ends a wait in time
        return redis_url


class TestRedis(OnRedis, BackendConformance):
    capabilities = EVERY - {"payloads", "recent"}
    expected_skips = 25  # those with the payloads of ended jobs, and with jobs in the order of enqueue


class TestRedisStore(OnRedis, StoreConformance, ArchiveConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0


class TestRedisLedger(OnRedis, LedgerConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 3  # those that put jobs in the same step: a queue may live on another node of a cluster
