"""A rate never allows more than its limit in any window, and never less than it could."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidJob
from tenure.guards.rate_limit import Rate, RateLimit, parse_rate
from tests.unit.guards.conftest import NOW, SECOND, Key


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("60/min", Rate(60, 60, 6)),
        ("10/s", Rate(10, 1)),
        (90, Rate(90, 60, 9)),
        ("5 / hour", Rate(5, 3600)),
        ("100/d", Rate(100, 86_400, 10)),
        ("10/s burst 4", Rate(10, 1, 4)),
    ],
)
def test_a_rate_is_read_as_people_write_it(text, rate):
    assert parse_rate(text) == rate


NO_RATES = ["", "fast", "0/s", 0, -3, "10", "10/fortnight", "10/s burst 11", True, 1.5, None]
OTHER_DIGITS = ["\N{ARABIC-INDIC DIGIT FIVE}/s", "10/s burst \N{ARABIC-INDIC DIGIT FIVE}"]
HUGE = {"text": "9" * 5000 + "/s", "burst": "10/s burst " + "9" * 5000, "number": 10**5000, "billion": 10**9}


@pytest.mark.parametrize("text", [*NO_RATES, *OTHER_DIGITS, *(pytest.param(HUGE[name], id=name) for name in HUGE)])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(InvalidJob) as refused:
        parse_rate(text)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("text", ["60/min", "10/s burst 4", "5/h", "100/d"])
def test_a_rate_is_written_as_it_is_read(text):
    assert str(parse_rate(text)) == text


def test_a_refusal_says_when_the_next_token_comes():
    key = Key(RateLimit("rate:x", parse_rate("10/s")))
    assert key.take("a") is None
    assert key.take("b").until == NOW + SECOND // 10
    key.advance(0.1)
    assert key.take("b") is None


def test_there_is_no_double_burst_at_a_minutes_edge():
    """A fixed window lets through twice the limit around its edge."""
    key, starts = Key(RateLimit("rate:x", parse_rate("60/min burst 30"))), []
    for _ in range(4000):
        if key.take("a") is None:
            starts.append(key.now)
        key.advance(0.05)
    assert most_in_any_window(starts, 60 * SECOND) <= 60


def test_a_full_bucket_is_forgotten():
    key = Key(RateLimit("rate:x", parse_rate("10/s burst 4")))
    key.take("a")
    assert key.row.expires <= NOW + SECOND // 7 + 1


def test_tokens_tells_how_many_could_start():
    guard = RateLimit("rate:x", parse_rate("10/s burst 4"))
    key = Key(guard)
    assert guard.tokens(key.state, key.now) == 4
    key.take("a")
    assert guard.tokens(key.state, key.now) == 3
    for _ in range(3):
        key.take("a")
    assert guard.tokens(key.state, key.now) == 0
    key.advance(0.15)
    assert guard.tokens(key.state, key.now) == 1


def test_a_spent_token_is_not_given_back():
    key = Key(RateLimit("rate:x", parse_rate("1/s")))
    key.take("a")
    assert key.settle("a", over=False) is None
    assert key.take("b").reason == "rate_limited"


@given(
    count=st.integers(1, 12),
    burst=st.integers(1, 12),
    gaps=st.lists(st.one_of(st.just(0), st.integers(0, 3 * SECOND)), max_size=80),
)
def test_never_more_than_the_limit_in_any_sliding_window(count, burst, gaps):
    guard = RateLimit("rate:x", Rate(count, 1, min(burst, count)))
    key, starts = Key(guard), []
    for gap in gaps:
        key.now += gap
        before = guard.tokens(key.state, key.now)
        if key.take("a") is None:
            starts.append(key.now)
            assert before >= 1
        else:
            assert before == 0
    assert most_in_any_window(starts, SECOND) <= count


@given(gaps=st.lists(st.integers(0, SECOND), min_size=1, max_size=20))
def test_what_is_refused_may_start_when_it_was_told_to_come_back(gaps):
    key = Key(RateLimit("rate:x", Rate(5, 1, 2)))
    for gap in gaps:
        key.now += gap
        refusal = key.take("a")
        if refusal is not None:
            key.now = refusal.until
            assert key.take("a") is None


def most_in_any_window(starts, length):
    return max((sum(start <= other < start + length for other in starts) for start in starts), default=0)
