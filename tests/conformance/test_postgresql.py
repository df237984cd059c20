"""The PostgreSQL backend keeps every promise, on a real server and across processes."""

import pytest

from tenure.testing.conformance import (
    ArchiveConformance,
    BackendConformance,
    LedgerConformance,
    StoreConformance,
)
from tenure.testing.conformance.capabilities import EVERY
from tests.support.opened_backend import Opened


class OnPostgresql(Opened):
    @pytest.fixture
    def url(self, postgres_place):
        url, empty = postgres_place
        empty()
        return url


class TestPostgresql(OnPostgresql, BackendConformance):
    capabilities = EVERY
    expected_skips = 0


class TestPostgresqlStore(OnPostgresql, StoreConformance, ArchiveConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0


class TestPostgresqlLedger(OnPostgresql, LedgerConformance):
    capabilities = frozenset({"Booking", "Shared"})
    expected_skips = 0
