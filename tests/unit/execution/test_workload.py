"""How many orders a child may hold ahead, by how long the handlers of its orders took."""

from types import SimpleNamespace

import pytest

from tenure.execution.parent.workload import Workload, record_duration

NOOP, SHORT, SLOW, NEW = (
    SimpleNamespace(envelope=SimpleNamespace(job=name)) for name in ("noop", "short", "slow", "new")
)


@pytest.fixture
def durations():
    return {"noop": 0.00001, "short": 0.0003, "slow": 2.0}


@pytest.fixture
def fill(durations):
    """Adds orders until a workload has no room, at most so many as are given; how many those were."""

    def add(workload, *attempts):
        return next((count for count, each in enumerate(attempts, 1) if not workload.add(durations, each)), None)

    return add


@pytest.mark.parametrize(("attempt", "expected"), [(NOOP, 129), (SHORT, 34), (SLOW, 1), (NEW, 1)])
def test_a_child_gets_orders_worth_ten_milliseconds_ahead(fill, attempt, expected):
    assert fill(Workload(1), *[attempt] * 500) == expected


@pytest.mark.parametrize("attempt", [SLOW, NEW])
def test_nothing_is_queued_behind_a_job_that_may_take_long(fill, durations, attempt):
    workload = Workload(1)
    assert fill(workload, NOOP, NOOP, attempt, NOOP) == 3
    workload.remove(NOOP)
    workload.remove(NOOP)
    assert not workload.is_low(durations)
    workload.remove(attempt)
    assert workload.is_low(durations)


@pytest.mark.parametrize(("attempt", "expected"), [(SLOW, 100), (SHORT, 228)])
def test_a_child_with_many_slots_can_fill_them_all(fill, attempt, expected):
    assert fill(Workload(100), *[attempt] * 500) == expected


def test_a_child_gets_more_orders_when_half_of_those_ahead_are_done(fill, durations):
    workload = Workload(1)
    ordered = fill(workload, *[NOOP] * 500)
    assert not workload.is_low(durations)
    for _ in range(ordered // 2):
        workload.remove(NOOP)
    assert not workload.is_low(durations)
    workload.remove(NOOP)
    assert workload.is_low(durations)


def test_a_handler_that_becomes_slow_is_noticed_while_its_orders_wait(fill, durations):
    workload = Workload(1)
    fill(workload, *[NOOP] * 10)
    assert workload.is_low(durations)
    record_duration(durations, "noop", 1.0)
    assert not workload.is_low(durations)


def test_a_duration_is_the_first_one_and_then_a_mean_of_recent_ones():
    durations = {}
    for seconds in (1.0, 0.0, 0.0):
        record_duration(durations, "job", seconds)
    assert durations == {"job": pytest.approx(0.81)}
