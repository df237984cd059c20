"""The memory backend keeps the promises; it lives in one process only."""

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.testing import FakeClock
from tenure.testing.conformance import (
    ArchiveConformance,
    BackendConformance,
    LedgerConformance,
    StoreConformance,
)
from tenure.testing.conformance.capabilities import PARTS


class TestMemory(BackendConformance):
    capabilities = frozenset(PARTS) - {"payloads"}
    expected_skips = 18  # those with a second process, and with the payloads of ended jobs

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def backend(self, clock):
        return MemoryBackend(clock)


class TestMemoryStore(StoreConformance, ArchiveConformance):
    expected_skips = 1  # the race of processes

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def store(self, clock):
        return MemoryBackend(clock).guards

    @pytest.fixture
    def archive(self, clock):
        return MemoryBackend(clock).archive


class TestMemoryLedger(LedgerConformance):
    capabilities = frozenset({"Booking"})
    expected_skips = 1  # the race of processes

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def backend(self, clock):
        return MemoryBackend(clock)
