"""Retry policies: how long a failed job waits."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import Backoff, RetryAfter, RetryPolicy, Tenure
from tenure.definition.retry import check_policy, retry_delay
from tenure.errors import InvalidHandler, InvalidJob

chances = st.floats(0, 1, exclude_max=True)
backoffs = st.builds(
    Backoff,
    strategy=st.sampled_from(["none", "fixed", "exponential"]),
    base=st.floats(0, 1e6),
    multiplier=st.floats(1, 1e6) | st.integers(1, 10),
    cap=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
)


def test_without_jitter_exponential_doubles_from_the_base_to_the_cap():
    backoff = Backoff(jitter=0)

    assert [backoff.delay(retry) for retry in range(1, 10)] == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_the_defaults_are_five_seconds_doubling_to_five_minutes_spread_by_a_fifth():
    assert Backoff() == Backoff("exponential", base=5.0, multiplier=2.0, cap=300.0, jitter=0.2)


def test_fixed_always_waits_the_base():
    backoff = Backoff("fixed", base=7.0)

    assert [backoff.delay(retry) for retry in (1, 2, 50)] == [7.0, 7.0, 7.0]


def test_none_retries_at_once():
    backoff = Backoff("none")

    assert [backoff.delay(retry) for retry in (1, 2, 50)] == [0.0, 0.0, 0.0]


@given(backoffs, st.integers(-5, 10**9), chances)
def test_a_delay_is_never_negative(backoff, retry, chance):
    assert retry_delay(backoff, retry, chance) >= 0


@given(st.floats(0, 1e6), st.floats(1, 1e6), st.floats(0, 1e6), st.floats(0, 1), st.integers(1, 10**9), chances)
def test_an_exponential_delay_is_never_above_the_cap_even_after_jitter(base, multiplier, cap, jitter, retry, chance):
    backoff = Backoff("exponential", base=base, multiplier=multiplier, cap=cap, jitter=jitter)

    assert retry_delay(backoff, retry, chance) <= cap


@given(st.floats(0.001, 1000), st.floats(0, 1), chances)
def test_the_first_exponential_delay_is_the_base_give_or_take_the_jitter(base, jitter, chance):
    backoff = Backoff(base=base, cap=10_000.0, jitter=jitter)

    delay = retry_delay(backoff, 1, chance)

    assert base * (1 - jitter) - 1e-9 <= delay <= base * (1 + jitter) + 1e-9


@pytest.mark.parametrize("multiplier", [2.0, 2, 1.0000001, 1e308])
@pytest.mark.parametrize("retry", [1_000, 10**6, 10**12])
def test_a_huge_retry_number_gives_a_delay_within_the_cap(multiplier, retry):
    assert 0 <= Backoff(multiplier=multiplier).delay(retry) <= 300.0


@given(st.integers(1, 100))
def test_a_drawn_delay_lies_within_the_jitter_of_the_exact_one(retry):
    exact = Backoff(jitter=0).delay(retry)

    assert exact * 0.8 <= Backoff().delay(retry) <= min(300.0, exact * 1.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": -1.0},
        {"base": float("nan")},
        {"base": float("inf")},
        {"cap": -1.0},
        {"cap": float("inf")},
        {"multiplier": 0.5},
        {"multiplier": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"base": "5"},
    ],
)
def test_numbers_that_could_not_be_waited_for_are_refused(wrong):
    with pytest.raises(InvalidJob, match="backoff needs base and cap within 0 … 100 years, multiplier ≥ 1 and jitter"):
        Backoff(**wrong)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(InvalidJob, match="must be 'none', 'fixed' or 'exponential', got 'linear'"):
        Backoff("linear")  # type: ignore[arg-type]


class Patient:
    def delay(self, retry, error):
        return 60.0 * retry


class Answering:
    """Returns what it was made with, or raises it."""

    def __init__(self, answer):
        self.answer = answer

    def delay(self, retry, error):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def test_anything_with_a_delay_method_is_a_retry_policy():
    assert isinstance(Patient(), RetryPolicy)
    assert isinstance(Backoff(), RetryPolicy)
    assert isinstance(RetryAfter(), RetryPolicy)


def test_a_policy_gets_the_number_of_the_retry_and_the_error():
    seen = []

    class Curious:
        def delay(self, retry, error):
            seen.append((retry, error))
            return 1

    error = ConnectionError("no")
    assert check_policy(Curious(), "handler 'ping'").delay(3, error) == 1.0
    assert seen == [(3, error)]


@pytest.mark.parametrize(("answer", "seconds"), [(2, 2.0), (0, 0.0), ("10m", 600.0), (timedelta(minutes=1), 60.0)])
def test_a_policy_may_answer_with_any_duration(answer, seconds):
    assert check_policy(Answering(answer), "the app").delay(1) == seconds


def test_none_leaves_the_decision_to_the_default_and_is_not_logged(caplog):
    policy = check_policy(Answering(None), "handler 'ping'")

    assert policy.with_default(Backoff("fixed", base=7)).delay(1) == 7.0
    assert 4.0 <= policy.delay(1) <= 6.0
    assert caplog.text == ""


@pytest.mark.parametrize(
    "answer",
    [-1.0, float("nan"), float("inf"), "soon", [5], timedelta(seconds=-1), True, ValueError("no"), SystemExit(1)],
)
def test_a_policy_without_a_valid_answer_is_logged_once_and_the_default_decides(caplog, answer):
    policy = check_policy(Answering(answer), "handler 'ping'").with_default(Backoff("fixed", base=7))

    assert [policy.delay(retry) for retry in (1, 2, 3)] == [7.0, 7.0, 7.0]
    (record,) = caplog.records
    assert record.getMessage() == (
        "the retry policy of handler 'ping' failed on retry 1; the default backoff is used instead"
    )


class Old:
    def delay(self, retry):
        return 1.0


class Greedy:
    def delay(self, retry, error, context):
        return 1.0


class Later:
    async def delay(self, retry, error):
        return 1.0


@pytest.mark.parametrize("policy", [Old(), Greedy()])
def test_a_policy_that_does_not_take_the_error_is_refused_where_it_is_given(policy):
    with pytest.raises(InvalidHandler, match=r"the retry policy of the app takes \(.*\); write it as delay\(self"):
        Tenure("memory://", retry=policy)
    with pytest.raises(InvalidHandler, match="the retry policy of handler 'ping' takes"):
        Tenure("memory://").job(name="ping", retry=policy)(lambda: None)


@pytest.mark.parametrize("policy", [3, "exponential", Patient, Later(), object(), lambda retry, error: 1])
def test_what_is_no_policy_is_refused(policy):
    with pytest.raises(InvalidHandler, match=r"must be an object with a method delay\(retry, error\)"):
        check_policy(policy, "the app")
