"""Durations as users write them."""

import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.definition.duration import to_seconds
from tenure.errors import InvalidJob


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("30s", 30.0),
        ("1.5s", 1.5),
        ("10m", 600.0),
        ("10min", 600.0),
        ("2h", 7200.0),
        ("10 minutes", 600.0),
        ("1 hour 30 minutes", 5400.0),
        ("1 hour 1 second", 3601.0),
        ("2 days", 172800.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        (" 1 h  30 m ", 5400.0),
        ("2d", 172800.0),
        ("1w", 604800.0),
        ("1w 2d 3h 4m 5s 6ms", 788645.006),
    ],
)
def test_text_is_read_as_numbers_with_units(text, seconds):
    assert to_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["\N{ARABIC-INDIC DIGIT FIVE}m", "1\N{ARABIC-INDIC DIGIT FIVE}m", "\N{SUPERSCRIPT THREE}s", "10m" * 40]
)
def test_text_in_other_digits_or_too_long_is_refused_with_a_short_message(text):
    with pytest.raises(InvalidJob) as refused:
        to_seconds(text)
    assert len(str(refused.value)) < 200


@given(st.integers(0, 5000), st.integers(0, 6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_written_duration_comes_back_as_its_seconds(weeks, days, hours, minutes, seconds):
    written = f"{weeks}w {days}d {hours}h {minutes}m {seconds}s"

    read = to_seconds(written)

    assert read == timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


@given(st.floats(0, 3_155_760_000))
def test_seconds_and_timedeltas_name_the_same_length(seconds):
    assert to_seconds(timedelta(seconds=seconds)) == pytest.approx(to_seconds(seconds), abs=1e-6)


@given(st.text(max_size=200))
def test_any_text_is_either_a_length_or_refused(text):
    try:
        seconds = to_seconds(text)
    except InvalidJob:
        return
    assert 0 <= seconds <= 3_155_760_000


@pytest.mark.parametrize("text", ["1" * 100_000, "1m" * 50_000 + "x", " " * 100_000, "1 " * 50_000, "1." * 50_000])
def test_long_text_is_refused_without_being_searched(text):
    begun = time.thread_time()

    with pytest.raises(InvalidJob):
        to_seconds(text)

    assert time.thread_time() - begun < 0.5


def test_the_message_names_what_was_being_set():
    with pytest.raises(InvalidJob, match="timeout 'later' is not a duration"):
        to_seconds("later", "timeout")
