"""Fixtures of backends that are opened by a URL and follow a clock that tests can move."""

import pytest

from tenure.backends.url import open_backend
from tenure.testing import FakeClock


class Opened:
    """A subclass adds the fixture `url`."""

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()

    @pytest.fixture
    def store(self, backend):
        return backend.guards

    @pytest.fixture
    def archive(self, backend):
        return backend.archive
