"""Every backend that can be away knows afterwards which settlements it applied."""

import sqlite3
from contextlib import closing, contextmanager
from secrets import token_hex

import pytest

from tenure.backends.sql.sqlite import database
from tenure.backends.url import open_backend
from tenure.testing import FakeClock
from tenure.testing.conformance import OutageConformance
from tests.conformance.broker_clock import BrokerClock
from tests.support.fault_proxy import FaultProxy
from tests.support.opened_backend import Opened
from tests.support.servicebus import Emulator


class BehindProxy(Opened):
    """A subclass adds the fixture `server`, the URL of the real server."""

    options = "timeout=5"  # a busy machine needs seconds for an answer

    @pytest.fixture
    def proxy(self, server):
        with FaultProxy(server) as proxy:
            yield proxy

    @pytest.fixture
    def url(self, proxy):
        return f"{proxy.url}{'&' if '?' in proxy.url else '?'}{self.options}"

    @pytest.fixture
    def outage(self, proxy):
        @contextmanager
        def away():
            proxy.swallow_requests = True
            yield
            proxy.heal()
            proxy.reset()

        return away


class TestPostgresql(BehindProxy, OutageConformance):
    @pytest.fixture
    def server(self, postgres_url):
        return postgres_url


class TestMariadb(BehindProxy, OutageConformance):
    @pytest.fixture
    def server(self, mariadb_url):
        return mariadb_url


class TestRedis(BehindProxy, OutageConformance):
    @pytest.fixture
    def server(self, redis_url):
        return redis_url


class TestBeanstalk(BehindProxy, OutageConformance):
    options = "ttr=120"

    @pytest.fixture
    def clock(self):
        return BrokerClock()

    @pytest.fixture
    def server(self, beanstalk_url):
        return f"{beanstalk_url}?prefix=test-{token_hex(6)}."

    @pytest.fixture
    def outage(self, proxy):
        @contextmanager
        def away():
            proxy.refuse = True
            proxy.reset()
            yield
            proxy.heal()

        return away


class TestSqlite(OutageConformance):
    """The file of an embedded database is away while another process keeps its write lock."""

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "jobs.db"

    @pytest.fixture
    def backend(self, path, clock, monkeypatch):
        monkeypatch.setattr(database, "_LOCK_TIMEOUT", 0.2)
        backend = open_backend(f"sqlite:///{path}", clock)
        yield backend
        backend.close()

    @pytest.fixture
    def outage(self, path):
        @contextmanager
        def away():
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                yield

        return away


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the SDK leaves sockets to the garbage collector
class TestServiceBus(OutageConformance):
    @pytest.fixture
    def clock(self):
        return BrokerClock()

    @pytest.fixture
    def emulator(self):
        with Emulator("mail", lock=5.0) as emulator:
            yield emulator

    @pytest.fixture
    def backend(self, emulator, clock):
        backend = open_backend(f"servicebus:{emulator.connection_string}?queues=mail", clock)
        yield backend
        backend.close()

    @pytest.fixture
    def outage(self, emulator):
        @contextmanager
        def away():
            emulator.faults.plan("settle", "cut", times=100)
            emulator.faults.plan("manage", "cut", times=100)
            yield
            emulator.faults.clear()

        return away
