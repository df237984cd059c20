"""A fixed key and wire, and messages that only a key holder could make by hand."""

import pytest

from tenure import Job
from tenure.wire.envelope import Wire
from tenure.wire.signing import SEAL_SIZE, Key, Ring

NOW = 1_893_456_000_123_456  # 2030-01-01T00:00:00.123456Z


@pytest.fixture
def key():
    return Key("k1", bytes(range(32)))


@pytest.fixture
def ring(key):
    return Ring([key])


@pytest.fixture
def wire(ring):
    return Wire(ring)


@pytest.fixture
def sealed(wire):
    return wire.seal(Job(handler="report", queue="slow"), b'{"month":6}', "id-1", NOW)


@pytest.fixture
def forge(ring, sealed):
    """Makes a message with a valid signature after replacing some of its bytes."""

    def make(old, new):
        assert old in sealed
        return ring.seal(sealed[:-SEAL_SIZE].replace(old, new) + b"}")

    return make


@pytest.fixture
def with_payload(forge):
    """Makes a message with a valid signature around the bytes of any payload."""
    return lambda payload: forge(b'{"month":6}', payload)
