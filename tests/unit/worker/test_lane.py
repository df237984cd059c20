"""A lane decides which queue is tried first, and how many jobs count."""

import random
from collections import Counter

import pytest

from tenure.errors import SettingsError
from tenure.events import Status
from tenure.worker.lane import Lane, arrange_lanes
from tenure.worker.leaser import counted_jobs


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

    assert counted_jobs(tally) == 6


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"queues": ()}, "lane 'mail' names no queue"),
        ({"runner": "proces"}, "lane 'mail' has the runner 'proces'; known ones: inline, process, threads, event_loop"),
        ({"concurrency": -1}, "lane 'mail' has a concurrency of -1; it must be at least 1"),
        ({"runner": "inline", "concurrency": 2}, "lane 'mail' is inline, which runs one job at a time"),
        ({"weights": {"b": 1.0}}, "lane 'mail' gives a weight to queue 'b', which it does not serve"),
        ({"weights": {"a": float("nan")}}, "lane 'mail' gives queue 'a' the weight nan"),
    ],
)
def test_a_lane_that_could_not_work_is_refused_by_name(values, says):
    with pytest.raises(SettingsError, match=says):
        Lane(**{"name": "mail", "queues": ("a",), **values})


def test_a_lane_has_the_concurrency_that_suits_its_runner():
    assert [Lane(queues=("a",), runner=kind).concurrency for kind in ("inline", "threads", "event_loop")] == [
        1,
        16,
        100,
    ]


def test_a_queue_that_a_lane_names_twice_counts_once():
    assert Lane(queues=("a", "b", "a")).queues == ("a", "b")


def test_the_inline_lane_comes_first():
    lanes = [
        Lane(queues=(queue,), runner=kind) for queue, kind in (("a", "process"), ("b", "inline"), ("c", "threads"))
    ]

    assert [lane.queues for lane in arrange_lanes(lanes)] == [("b",), ("a",), ("c",)]


def test_two_lanes_on_one_queue_are_refused():
    lanes = [Lane(name="one", queues=("a", "b")), Lane(name="two", queues=("b",))]

    with pytest.raises(SettingsError, match="queue 'b' is in the lanes 'one' and 'two'"):
        arrange_lanes(lanes)


def test_two_inline_lanes_are_refused():
    lanes = [Lane(name=queue, queues=(queue,), runner="inline") for queue in "ab"]

    with pytest.raises(SettingsError, match="the lanes 'a', 'b' are inline; one can be"):
        arrange_lanes(lanes)
