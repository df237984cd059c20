"""What tests of spans and metrics share."""

import pytest

from tenure.backends import url
from tenure.backends.memory import MemoryBackend


@pytest.fixture
def server_url(monkeypatch):
    """A URL of a server; the jobs are in memory."""
    monkeypatch.setitem(url._registered, "elsewhere", lambda parts, clock: MemoryBackend(clock))
    return "elsewhere://user:swordfish@queue.internal:6390/0"
