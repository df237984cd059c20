"""The SQLite backend keeps every promise, across processes too."""

import pytest

from tenure.backends.opening import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import (
    BackendConformance,
    ChronicleConformance,
    LedgerConformance,
    StoreConformance,
)


class TestSqlite(BackendConformance):
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
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()


class TestSqliteStore(StoreConformance, ChronicleConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"

    @pytest.fixture
    def store(self, url, clock):
        store = open_backend(url, clock)
        yield store
        store.close()


class TestSqliteLedger(LedgerConformance):
    capabilities = frozenset({"Booking", "Shared"})
    expected_skips = 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()
