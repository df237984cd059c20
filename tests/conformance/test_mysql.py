"""The MySQL backend keeps every promise, on a real MariaDB server and across processes."""

import pytest

from tenure.testing.conformance import (
    BackendConformance,
    ChronicleConformance,
    LedgerConformance,
    StoreConformance,
)
from tenure.testing.conformance.capabilities import EVERY
from tests.conformance.opened import Opened


class OnMariadb(Opened):
    @pytest.fixture
    def url(self, mariadb_place):
        url, empty = mariadb_place
        empty()
        return url


class TestMariadb(OnMariadb, BackendConformance):
    capabilities = EVERY
    expected_skips = 0


class TestMariadbStore(OnMariadb, StoreConformance, ChronicleConformance):
    capabilities = frozenset({"Shared"})
    expected_skips = 0


class TestMariadbLedger(OnMariadb, LedgerConformance):
    capabilities = frozenset({"Booking", "Shared"})
    expected_skips = 0
