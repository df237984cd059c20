"""The Redis backend keeps every promise, across processes too."""

import pytest

from tenure.backends.opening import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import (
    BackendConformance,
    ChronicleConformance,
    LedgerConformance,
    StoreConformance,
)


class TestRedis(BackendConformance):
    capabilities = frozenset(
        {
            "Inspectable",
            "Statistical",
            "Listable",
            "Aged",
            "DeadLetters",
            "Burying",
            "Maintained",
            "Steerable",
            "Reschedulable",
            "Scannable",
            "Parking",
            "Exclusive",
            "Shared",
        }
    )
    expected_skips = 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, redis_url):
        return redis_url

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()


class TestRedisStore(StoreConformance, ChronicleConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, redis_url):
        return redis_url

    @pytest.fixture
    def store(self, url, clock):
        store = open_backend(url, clock)
        yield store
        store.close()


class TestRedisLedger(LedgerConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 3  # those that put jobs in the same step: a queue may live on another node of a cluster

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, redis_url):
        return redis_url

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()
