"""The PostgreSQL backend keeps every promise, on a real server, across processes, whatever its defaults."""

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
    @pytest.fixture(params=["postgres_place", "postgres_unusual_place"], ids=["usual", "unusual"])
    def url(self, request):
        url, empty = request.getfixturevalue(request.param)
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
