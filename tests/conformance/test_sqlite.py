"""The SQLite backend keeps every promise, across processes too."""

import pytest

from tenure.testing.conformance import (
    ArchiveConformance,
    BackendConformance,
    LedgerConformance,
    StoreConformance,
)
from tenure.testing.conformance.capabilities import EVERY
from tests.support.opened_backend import Opened


class OnSqlite(Opened):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"


class TestSqlite(OnSqlite, BackendConformance):
    capabilities = EVERY
    expected_skips = 0


class TestSqliteStore(OnSqlite, StoreConformance, ArchiveConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0


class TestSqliteLedger(OnSqlite, LedgerConformance):
    capabilities = frozenset({"Booking", "Shared"})
    expected_skips = 0
