"""Which jobs are charged when a child must be killed or dies: the rules by themselves."""

from types import SimpleNamespace

import pytest

from tenure.execution.parent.stop_rules import Blame, outcomes_of_exit, stop_reason, will_be_killed

NOBODY = Blame(0, frozen=False)
FROZEN = Blame(0, frozen=True)


def attempt(timeout):
    return SimpleNamespace(timeout=timeout)


@pytest.mark.parametrize(
    ("timeout", "age", "facts", "expected"),
    [
        (None, 1e6, {}, None),
        (5, 5.9, {}, None),
        (5, 6.1, {}, "timed_out"),
        (5, 1, {"stopping": True}, "interrupted"),
        (5, 99, {"stopping": True}, "interrupted"),
        (5, 99, {"stopping": True, "lost": True}, "lost"),
        (None, 1, {"lost": True}, "lost"),
        (None, 99, {"cancel_age": 0.9}, None),
        (None, 99, {"cancel_age": 1.1}, "cancelled"),
        (5, 99, {"cancel_age": 1.1}, "cancelled"),
        (5, 99, {"cancel_age": 0.9}, "timed_out"),
        (5, 99, {"cancel_age": 1.1, "stopping": True}, "interrupted"),
    ],
)
def test_a_run_is_stopped_for_the_first_reason_there_is(timeout, age, facts, expected):
    assert (
        stop_reason(attempt(timeout), age, **{"cancel_age": None, "lost": False, "stopping": False, **facts})
        == expected
    )


@pytest.mark.parametrize(("timeout", "age", "expected"), [(None, 1e6, False), (5, 5.2, False), (5, 5.3, True)])
def test_a_run_that_ignores_its_soft_deadline_will_be_killed(timeout, age, expected):
    assert will_be_killed(attempt(timeout), age, cancel_age=None) is expected


@pytest.mark.parametrize(("asked", "expected"), [(0.2, False), (0.3, True)])
def test_a_run_that_ignores_its_cancelling_will_be_killed(asked, expected):
    assert will_be_killed(attempt(None), 1, cancel_age=asked) is expected


@pytest.mark.parametrize(
    ("ran", "sentences", "blame", "expected"),
    [
        ([], {}, NOBODY, {}),
        ([1], {}, NOBODY, {1: "crashed"}),
        ([1, 2], {}, NOBODY, {1: "vanished", 2: "vanished"}),
        ([1], {1: "timed_out"}, FROZEN, {1: "timed_out"}),
        ([1, 2], {1: "timed_out"}, NOBODY, {1: "timed_out", 2: "neighbour"}),
        ([1, 2], {1: "timed_out", 2: "timed_out"}, NOBODY, {1: "timed_out", 2: "timed_out"}),
        ([1, 2], {1: "timed_out"}, FROZEN, {1: "vanished", 2: "vanished"}),
        ([1, 2, 3], {1: "timed_out", 2: "lost"}, FROZEN, {1: "vanished", 2: "lost", 3: "vanished"}),
        ([1, 2], {1: "timed_out", 2: "timed_out"}, Blame(2, frozen=False), {1: "neighbour", 2: "timed_out"}),
        ([1, 2, 3], {1: "timed_out"}, Blame(2, frozen=False), {1: "neighbour", 2: "vanished", 3: "neighbour"}),
        ([1, 2], {1: "timed_out"}, Blame(9, frozen=False), {1: "timed_out", 2: "neighbour"}),
        ([1, 2], {1: "cancelled"}, FROZEN, {1: "cancelled", 2: "neighbour"}),
        ([1, 2], {1: "lost"}, FROZEN, {1: "lost", 2: "neighbour"}),
        ([1, 2], {1: "interrupted", 2: "interrupted"}, FROZEN, {1: "interrupted", 2: "interrupted"}),
    ],
)
def test_only_a_job_that_is_known_to_have_done_it_is_charged(ran, sentences, blame, expected):
    assert outcomes_of_exit(ran, sentences, blame) == expected
