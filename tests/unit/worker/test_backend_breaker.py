"""After failures in a row the worker pauses its calls of the backend, then one worker probes for all."""

import time

import pytest

from tenure.errors import BackendUnavailable
from tenure.guards.breaker import Breaker
from tenure.guards.store import MemoryStore
from tenure.testing import FakeClock
from tenure.worker.backend_breaker import BackendBreaker, SharedBreaker


def opened(cooldown=60.0):
    outage = BackendBreaker(3, cooldown)
    pauses = [outage.failed() for _ in range(3)]
    assert pauses[:2] == [None, None]
    return outage, pauses[2]


def test_a_backend_that_works_is_asked_at_once():
    outage = BackendBreaker(3)
    assert outage.pause("a") == 0


def test_failures_in_a_row_open_it_for_everybody(monkeypatch):
    monkeypatch.setattr("tenure.worker.backend_breaker.FIRST_PAUSE_SECONDS", 60.0)  # however slow the machine is
    outage, pause = opened()
    assert 0 < outage.pause("a") <= pause
    assert 0 < outage.pause("b") <= pause


def test_an_answer_in_between_starts_the_count_again():
    outage = BackendBreaker(2)
    outage.failed()
    outage.succeeded()
    assert outage.failed() is None


def test_then_one_asks_and_only_one():
    outage, _ = opened(cooldown=0.01)
    time.sleep(0.02)  # the circuit has its own time
    assert outage.pause("a") == 0
    assert outage.pause("b") > 0
    assert outage.pause("a") == 0


def test_a_probe_that_fails_is_left_alone_for_longer_up_to_the_cooldown():
    outage, first = opened(cooldown=4.0)
    pauses = [outage.failed() for _ in range(6)]
    assert pauses[0] > first
    assert max(pauses) <= 4.0 * 1.2


def test_a_probe_that_succeeds_lets_everybody_ask():
    outage, _ = opened(cooldown=0.01)
    time.sleep(0.02)  # the circuit has its own time
    outage.pause("a")
    outage.succeeded()
    assert outage.pause("b") == 0


def probing(workers, clock):
    """Two workers, of whom the first is the one that asks for both."""
    first, second = workers(2)
    for _ in range(3):
        first.failed()
    second.failed()
    clock.advance(0.6)
    after(first.pause("lane"))
    assert first.pause("lane") == 0
    assert second.pause("lane") > 0
    return first, second


class TestFleet:
    """Workers whose guards are kept elsewhere than their jobs share one breaker."""

    def test_it_opens_by_the_failures_of_all_and_one_probes_for_all(self, workers, clock):
        first, second, third = workers(3)
        assert [first.failed(), second.failed()] == [None, None]
        assert third.failed() == 0.5
        clock.advance(0.6)
        probes = [worker.pause("lane") for worker in (first, second, third)]
        assert [pause == 0 for pause in probes] == [True, False, False]
        assert first.failed() == 1.0  # twice as long

    def test_a_probe_that_is_answered_lets_everybody_ask(self, workers, clock):
        first, second = probing(workers, clock)
        first.succeeded()
        after(second.pause("lane"))
        assert second.pause("lane") == 0

    def test_whoever_is_answered_goes_on_while_another_is_cut_off(self, workers):
        cut_off, fine = workers(2)
        for _ in range(9):
            cut_off.failed()
        assert fine.pause("lane") == 0

    def test_a_probe_that_vanished_is_replaced(self, workers, clock):
        _, second = probing(workers, clock)
        clock.advance(16)
        after(second.pause("lane"))
        assert second.pause("lane") == 0

    def test_without_the_store_each_goes_by_what_it_has_seen(self, workers, store, monkeypatch):
        (worker,) = workers(1)
        monkeypatch.setattr(store, "read", broken)
        monkeypatch.setattr(store, "change", broken)
        pauses = [worker.failed() for _ in range(3)]
        assert pauses[:2] == [None, None]
        assert pauses[2] > 0

    @pytest.fixture
    def clock(self):
        return FakeClock()

    @pytest.fixture
    def store(self, clock):
        return MemoryStore(clock)

    @pytest.fixture
    def workers(self, store):
        guard = Breaker("backend:x", 3, 60.0, 0.5)
        return lambda count: [BackendBreaker(3, 60.0, SharedBreaker(store, guard, 15.0)) for _ in range(count)]


def after(pause):
    time.sleep(pause * 1.01)  # its own time, not that of the store


def broken(*_):
    raise BackendUnavailable("gone")
