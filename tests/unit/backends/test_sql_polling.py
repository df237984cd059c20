"""How often a worker asks a server that does not report new work."""

import time
from types import SimpleNamespace

import pytest

from tenure.backends.sql import connections


@pytest.fixture
def slept(monkeypatch):
    seconds = []
    monkeypatch.setattr(connections, "time", SimpleNamespace(sleep=seconds.append, monotonic=time.monotonic))
    return seconds


def test_a_worker_polls_less_often_the_longer_it_has_had_no_job(slept):
    for idle in (0, 9, 20, 60):
        connections.poll(1.0, last_work=time.monotonic() - idle)
    assert slept == [0.025, 0.025, pytest.approx(0.05, abs=0.005), 0.1]


def test_a_poll_ends_when_a_delayed_job_is_due(slept):
    connections.poll(0.001, last_work=time.monotonic() - 60)
    assert slept == [0.001]
