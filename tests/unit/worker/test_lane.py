"""A lane says which queue is tried first, and how many jobs count."""

import random
from collections import Counter

import pytest

from tenure.events import Status
from tenure.worker.lane import Lane


@pytest.fixture
def seeded():
    state = random.getstate()
    random.seed(20300101)
    yield
    random.setstate(state)


def test_without_weights_the_queues_are_tried_strictly_in_order():
    lane = Lane(queues=("high", "normal", "low"))

    assert [lane.order() for _ in range(5)] == [["high", "normal", "low"]] * 5


def test_with_weights_every_queue_is_tried_once():
    lane = Lane(queues=("a", "b", "c"), weights={"a": 5.0, "b": 0.1})

    assert sorted(lane.order()) == ["a", "b", "c"]


def test_with_weights_a_queue_comes_first_in_proportion_to_its_weight(seeded):
    lane = Lane(queues=("a", "b", "c"), weights={"a": 6.0, "b": 3.0, "c": 1.0})

    first = Counter(lane.order()[0] for _ in range(10_000))

    assert [first[queue] / 10_000 for queue in "abc"] == pytest.approx([0.6, 0.3, 0.1], abs=0.02)


def test_a_queue_without_a_weight_weighs_1(seeded):
    lane = Lane(queues=("a", "b"), weights={"a": 3.0})

    first = Counter(lane.order()[0] for _ in range(10_000))

    assert first["b"] / 10_000 == pytest.approx(0.25, abs=0.02)


def test_a_light_queue_still_comes_first_sometimes(seeded):
    lane = Lane(queues=("a", "b"), weights={"a": 20.0, "b": 1.0})

    assert any(lane.order()[0] == "b" for _ in range(1_000))


def test_jobs_put_off_at_no_cost_do_not_count_as_run():
    tally = Counter({Status.ACKED: 3, Status.REQUEUED: 2, Status.POSTPONED: 7, Status.DEAD_LETTERED: 1})

    assert Lane().ran(tally) == 6
