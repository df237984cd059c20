"""After failures in a row nobody asks the backend for a while, and then one does, for all."""

import time

from tenure.worker.outage import Outage


def opened(cooldown=60.0):
    outage = Outage(3, cooldown)
    pauses = [outage.failed() for _ in range(3)]
    assert pauses[:2] == [None, None]
    return outage, pauses[2]


def test_a_backend_that_works_is_asked_at_once():
    outage = Outage(3)
    assert outage.pause("a") == 0
    assert not outage.over()


def test_failures_in_a_row_open_it_for_everybody():
    outage, pause = opened()
    assert 0 < outage.pause("a") <= pause
    assert 0 < outage.pause("b") <= pause


def test_an_answer_in_between_starts_the_count_again():
    outage = Outage(2)
    outage.failed()
    assert not outage.over()
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
    assert outage.over()
    assert outage.pause("b") == 0
