"""Opened: the fixtures of backends that are opened by a URL and go by a clock which can be moved."""

import pytest

from tenure.backends.opening import open_backend
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
        return backend
