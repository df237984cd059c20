"""The PostgreSQL backend keeps every promise, on a real server and across processes."""

import pytest

from tenure.backends.opening import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import BackendConformance


class TestPostgresql(BackendConformance):
    capabilities = frozenset({"Inspectable", "DeadLetters", "Maintained", "Steerable", "Scannable", "Shared"})
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
