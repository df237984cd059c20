"""The Redis backend keeps every promise, across processes too."""

import pytest

from tenure.backends.opening import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import BackendConformance


class TestRedis(BackendConformance):
    capabilities = frozenset({"Inspectable", "DeadLetters", "Maintained", "Steerable", "Scannable", "Shared"})
    expected_skips = 25  # those with guards

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
