"""The PostgreSQL backend keeps every promise, on a real server and across processes."""

import pytest

from tenure.backends.opening import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import (
    BackendConformance,
    ChronicleConformance,
    LedgerConformance,
    StoreConformance,
)


class TestPostgresql(BackendConformance):
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
    def url(self, postgres_place):
        url, empty = postgres_place
        empty()
        return url

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()


class TestPostgresqlStore(StoreConformance, ChronicleConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, postgres_place):
        url, empty = postgres_place
        empty()
        return url

    @pytest.fixture
    def store(self, url, clock):
        store = open_backend(url, clock)
        yield store
        store.close()


class TestPostgresqlLedger(LedgerConformance):
    capabilities = frozenset({"Booking", "Shared"})
    expected_skips = 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, postgres_place):
        url, empty = postgres_place
        empty()
        return url

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()
