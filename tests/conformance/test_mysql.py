"""The MySQL backend keeps every promise, on a real MariaDB server, across processes, whatever its defaults."""

import pytest

from tenure.testing.conformance import (
    ArchiveConformance,
    BackendConformance,
    LedgerConformance,
    StoreConformance,
)
from tenure.testing.conformance.capabilities import EVERY
from tests.support.opened_backend import Opened


class OnMariadb(Opened):
    @pytest.fixture(params=["mariadb_place", "mariadb_unusual_place"], ids=["usual", "unusual"])
    def url(self, request):
        url, empty = request.getfixturevalue(request.param)
        empty()
        return url


class TestMariadb(OnMariadb, BackendConformance):
    capabilities = EVERY
    expected_skips = 0


class TestMariadbStore(OnMariadb, StoreConformance, ArchiveConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0


class TestMariadbLedger(OnMariadb, LedgerConformance):
    capabilities = frozenset({"Booking", "Shared"})
    expected_skips = 0
