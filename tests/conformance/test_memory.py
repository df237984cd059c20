"""The memory backend keeps the promises; it lives in one process only."""

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.testing import FakeClock
from tenure.testing.conformance import (
    BackendConformance,
    ChronicleConformance,
    LedgerConformance,
    StoreConformance,
)


class TestMemory(BackendConformance):
    capabilities = frozenset(
        {"Inspectable", "DeadLetters", "Burying", "Maintained", "Steerable", "Scannable", "Parking", "Exclusive"}
        | {"Statistical", "Listable", "Reschedulable", "Aged"}
    )
    expected_skips = 6  # those with a second process

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def backend(self, clock):
        return MemoryBackend(clock)


class TestMemoryStore(StoreConformance, ChronicleConformance):
    expected_skips = 1  # the race of processes

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def store(self, clock):
        return MemoryBackend(clock)


class TestMemoryLedger(LedgerConformance):
    capabilities = frozenset({"Booking"})
    expected_skips = 1  # the race of processes

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def backend(self, clock):
        return MemoryBackend(clock)
