"""What a worker reports about the flow of jobs."""

from collections import Counter

import pytest

from tenure.backends.memory import MemoryBackend
from tenure.backends.messages import Message
from tenure.backends.records import WorkerRecord
from tenure.errors import BackendUnavailable
from tenure.testing import FakeClock
from tenure.worker import heartbeat as module
from tenure.worker.heartbeat import RATE_WINDOW, Throughput


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(clock):
    backend = MemoryBackend(clock)
    backend.put([Message(id=str(n), queue="mail", body=b"{}", handler="greet") for n in range(3)])
    return backend


@pytest.fixture
def moment(monkeypatch):
    """Moves the monotonic time that rates are measured by."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_a_rate_is_over_the_time_since_the_start_at_first(backend, clock, moment):
    throughput = Throughput(backend.queues, backend.workers, clock, lambda: Counter(mail=50))
    moment[0] += 10
    assert throughput.rates() == {"mail": 5.0}


def test_a_rate_is_over_about_a_minute_later(backend, clock, moment):
    ended = Counter()
    throughput = Throughput(backend.queues, backend.workers, clock, lambda: Counter(ended))
    for _ in range(60):
        moment[0] += 5
        ended["mail"] += 10
        throughput.rates()
    moment[0] += 5
    assert 0 < throughput.rates()["mail"] < 2.0
    for _ in range(12):
        moment[0] += 5
        rates = throughput.rates()
    assert rates == {"mail": 0.0}


def test_one_worker_counts_once_in_a_while_and_tells_the_count_before_the_last(backend, clock):
    throughput = Throughput(backend.queues, backend.workers, clock, Counter)
    at, live = throughput.live()
    assert (at, live) == (clock.now(), {"mail": 3})
    clock.advance(RATE_WINDOW / 2)
    backend.put([Message(id="new", queue="mail", body=b"{}", handler="greet")])
    assert throughput.live() == (at, {"mail": 3})
    clock.advance(RATE_WINDOW)
    assert throughput.live() == (at, {"mail": 3})
    clock.advance(RATE_WINDOW)
    assert throughput.live()[1] == {"mail": 4}


def test_a_worker_does_not_count_while_another_does(backend, clock):
    other = WorkerRecord(
        id="other", host="h", pid=1, queues=("mail",), runner="inline", concurrency=1, started_at=0, seen_at=0,
        live={"mail": 1}, live_at=clock.now(),
    )  # fmt: skip
    backend.workers.announce(other, 3600)
    throughput = Throughput(backend.queues, backend.workers, clock, Counter)
    assert throughput.live() == (0, {})
    clock.advance(4 * RATE_WINDOW)
    assert throughput.live()[1] == {"mail": 3}


def test_a_count_that_fails_is_told_and_tried_later(backend, clock, caplog):
    def refuse(**options):
        raise BackendUnavailable("gone")

    backend.queues.counts, counts = refuse, backend.queues.counts
    throughput = Throughput(backend.queues, backend.workers, clock, Counter)
    assert throughput.live() == (0, {})
    assert "counting jobs failed, trying again: gone" in caplog.text
    backend.queues.counts = counts
    clock.advance(RATE_WINDOW)
    assert throughput.live()[1] == {"mail": 3}
