"""How often a worker asks a server that does not report new work, and what it does when others take the job."""

from contextlib import closing, nullcontext
from time import sleep
from types import SimpleNamespace

import pytest

from tenure.backends.sql import connections
from tenure.backends.sql.sqlite.dialect import SqliteDialect
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance.messages import QUEUE, make, numbers
from tests.support.waiting import WAIT_SECONDS

NOW = 1000.0


@pytest.fixture
def slept(monkeypatch):
    seconds = []
    monkeypatch.setattr(connections, "time", SimpleNamespace(sleep=seconds.append, monotonic=lambda: NOW))
    return seconds


def test_a_worker_polls_less_often_the_longer_it_has_had_no_job(slept):
    for idle in (0, 0.06, 9, 20, 60):
        connections.poll(1.0, last_work=NOW - idle)
    assert slept == [0.004, pytest.approx(0.015, abs=0.005), 0.025, pytest.approx(0.05, abs=0.005), 0.1]


def test_a_poll_ends_when_a_delayed_job_is_due(slept):
    connections.poll(0.001, last_work=NOW - 60)
    assert slept == [0.001]


def test_a_worker_that_loses_the_race_for_a_job_waits_for_the_next(tmp_path, monkeypatch):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", SystemClock())) as backend:
        backend.put([make(1)])
        claim, lost = SqliteDialect.claim, [[], []]
        monkeypatch.setattr(SqliteDialect, "claim", lambda *args: lost.pop() if lost else claim(*args))
        assert numbers(backend.lease([QUEUE], limit=1, seconds=60, wait=WAIT_SECONDS)) == [1]


def test_a_job_that_others_hold_locked_is_not_claimed_in_a_hot_loop(tmp_path, monkeypatch):
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db", SystemClock())) as backend:
        backend.put([make(1)])
        claims = []
        monkeypatch.setattr(SqliteDialect, "claim", lambda *args: claims.append(args) or [])
        monkeypatch.setattr(SqliteDialect, "watch", lambda *_: nullcontext(sleep))  # no write ends a wait
        assert backend.lease([QUEUE], limit=1, seconds=60, wait=0.3) == []
        assert len(claims) <= 8
