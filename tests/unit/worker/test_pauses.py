"""Pauses double up to their cap and are spread, so that callers do not march in step."""

import pytest

from tenure.worker.pauses import Pauses


def test_pauses_double_up_to_the_cap_within_a_fifth():
    pauses = Pauses(first=1.0, most=10.0)

    taken = [pauses.longer() for _ in range(7)]

    assert taken == [pytest.approx(exact, rel=0.2) for exact in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0)]


def test_pauses_are_spread():
    assert len({Pauses().longer() for _ in range(20)}) > 1


def test_a_reset_begins_again():
    pauses = Pauses(first=1.0, most=100.0)
    for _ in range(5):
        pauses.longer()

    pauses.reset()

    assert pauses.longer() == pytest.approx(1.0, rel=0.2)
