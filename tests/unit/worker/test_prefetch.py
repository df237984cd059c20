"""How many more jobs to lease: enough for fast jobs, and no more than needed for slow ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.worker.inbox import LEASE_BATCH, MAX_UNSETTLED, PREFETCH_SECONDS, demand

situations = st.fixed_dictionaries(
    {
        "idle": st.integers(0, 64),
        "concurrency": st.integers(1, 64),
        "waiting": st.integers(0, 1_000),
        "unsettled": st.integers(0, 5_000),
        "mean": st.none() | st.floats(0, 3_600),
        "busy": st.floats(0, 3_600),
    }
)


@given(situations)
def test_demand_is_never_negative(situation):
    assert demand(**situation) >= 0


@given(situations)
def test_demand_is_never_above_a_batch(situation):
    assert demand(**situation) <= LEASE_BATCH


@given(situations)
def test_demand_never_takes_the_unsettled_above_their_bound(situation):
    assert demand(**situation) + situation["unsettled"] <= max(MAX_UNSETTLED, situation["unsettled"])


@given(
    st.integers(1, 64),
    st.integers(0, 1_000),
    st.none() | st.floats(0, 10),
    st.floats(PREFETCH_SECONDS, 3_600, exclude_min=True),
)
def test_nothing_is_fetched_ahead_while_a_slow_job_runs(concurrency, waiting, mean, busy):
    assert demand(idle=0, concurrency=concurrency, waiting=waiting, unsettled=0, mean=mean, busy=busy) == 0


@given(st.integers(1, 64), st.none() | st.floats(0, 3_600), st.floats(0, 3_600), st.integers(0, MAX_UNSETTLED - 64))
def test_idle_slots_are_always_filled_when_nothing_waits(idle, mean, busy, unsettled):
    assert demand(idle=idle, concurrency=64, waiting=0, unsettled=unsettled, mean=mean, busy=busy) >= idle


@given(st.integers(1, 64))
def test_before_anything_is_known_only_what_can_start_now_is_fetched(concurrency):
    assert demand(idle=concurrency, concurrency=concurrency, waiting=0, unsettled=0, mean=None, busy=0.0) == concurrency


@given(st.floats(PREFETCH_SECONDS, 3_600, exclude_min=True))
def test_jobs_longer_than_the_horizon_are_fetched_one_by_one(mean):
    assert demand(idle=1, concurrency=1, waiting=0, unsettled=0, mean=mean, busy=0.0) == 1


def test_fast_jobs_are_fetched_as_far_ahead_as_the_horizon():
    assert demand(idle=0, concurrency=1, waiting=0, unsettled=0, mean=0.001, busy=0.0) == 50


def test_the_fastest_jobs_are_fetched_a_batch_at_a_time():
    assert demand(idle=0, concurrency=1, waiting=0, unsettled=0, mean=0.0, busy=0.0) == LEASE_BATCH


@pytest.mark.parametrize(("waiting", "more"), [(0, 50), (25, 25), (26, 0), (50, 0), (500, 0)])
def test_more_is_fetched_only_when_half_of_it_is_gone(waiting, more):
    assert demand(idle=0, concurrency=1, waiting=waiting, unsettled=0, mean=0.001, busy=0.0) == more


@pytest.mark.parametrize(("unsettled", "more"), [(2_950, 50), (2_980, 20), (3_000, 0), (4_000, 0)])
def test_the_unsettled_are_bounded(unsettled, more):
    assert demand(idle=0, concurrency=1, waiting=0, unsettled=unsettled, mean=0.001, busy=0.0) == more
