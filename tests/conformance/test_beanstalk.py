"""The Beanstalkd backend keeps the promises that its server can carry."""

from contextlib import closing
from secrets import token_hex
from urllib.parse import urlsplit

import greenstalk
import pytest

from tenure.backends.url import open_backend
from tenure.testing.conformance import BackendConformance
from tests.conformance.broker_clock import BrokerClock


class BeanstalkClock(BrokerClock):
    """The server looks for delays that are over after each command, so another one has to come first."""

    def __init__(self, url):
        super().__init__()
        self._server = urlsplit(url)

    def advance(self, seconds):
        super().advance(seconds)
        with closing(greenstalk.Client((self._server.hostname, self._server.port))) as client:
            client.stats()


class TestBeanstalk(BackendConformance):
    capabilities = frozenset({"queues", "dead_letters", "Shared"})
    lacks = frozenset({"UniqueIds", "LingeringLeases"})
    expected_skips = 206

    @pytest.fixture
    def clock(self, beanstalk_url):
        return BeanstalkClock(beanstalk_url)

    @pytest.fixture
    def url(self, beanstalk_url):
        return f"{beanstalk_url}?ttr=120&prefix=test-{token_hex(6)}."

    @pytest.fixture
    def backend(self, url, clock):
        backend = open_backend(url, clock)
        yield backend
        backend.close()
