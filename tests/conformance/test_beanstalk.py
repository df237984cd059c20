"""The Beanstalkd backend keeps the promises that its server can carry."""

from secrets import token_hex
from threading import Event

import pytest

from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance import BackendConformance


class WaitingClock(SystemClock):
    """A broker goes by its own clock, so that advancing means waiting."""

    def advance(self, seconds):
        Event().wait(seconds)


class TestBeanstalk(BackendConformance):
    capabilities = frozenset({"queues", "dead_letters", "Shared"})
    lacks = frozenset({"UniqueIds", "LingeringLeases"})
    expected_skips = 205

    @pytest.fixture
    def clock(self):
        return WaitingClock()

    @pytest.fixture
    def url(self, beanstalk_url):
        return f"{beanstalk_url}?ttr=120&prefix=test-{token_hex(6)}."

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()
