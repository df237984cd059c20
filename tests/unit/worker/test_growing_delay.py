"""Delays double up to their limit and are spread, so that callers do not retry at the same moment."""

import pytest

from tenure.worker.roles import GrowingDelay


def test_pauses_double_up_to_the_cap_within_a_fifth():
    pauses = GrowingDelay(first=1.0, longest=10.0)

    taken = [pauses.next() for _ in range(7)]

    assert taken == [pytest.approx(exact, rel=0.2) for exact in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0)]


def test_pauses_are_spread():
    assert len({GrowingDelay().next() for _ in range(20)}) > 1


def test_a_reset_begins_again():
    pauses = GrowingDelay(first=1.0, longest=100.0)
    for _ in range(5):
        pauses.next()

    pauses.reset()

    assert pauses.next() == pytest.approx(1.0, rel=0.2)
