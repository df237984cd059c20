"""Text of the pages: what a reader sees for numbers, times, sizes and JSON."""

from datetime import UTC, datetime, timedelta

import pytest

from tenure.redaction import MASK
from tenure.web.text import (
    NBSP,
    ago,
    bytes_text,
    clock,
    cut,
    duration,
    exact,
    iso,
    json_lines,
    number,
    percent,
    rate,
    short_duration,
    short_id,
    short_number,
    visible,
)

NOW = datetime(2026, 11, 15, 14, 32, 8, tzinfo=UTC)


def plain(text: str) -> str:
    """The text with ordinary spaces: one test below looks at the no-break spaces themselves."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_number_and_its_unit_are_never_broken_apart() -> None:
    texts = [duration(7690), percent(0.015), bytes_text(1.5 * 2**30), short_number(1_204_233), clock(NOW, NOW)]
    assert [text for text in texts if " " in text] == []


@pytest.mark.parametrize(
    ("value", "text"), [(5568, "5,568"), (0, "0"), (14.8, "14.8"), (1204.6, "1,205"), (None, "–"), (-3, "-3")]
)
def test_a_number_has_separators_and_the_unknown_is_a_dash(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999_999, "999,999"), (1_204_233, "1.20 M"), (28_400_000, "28.4 M"), (999_900_000, "1.00 G"), (None, "–")],
)
def test_from_a_million_on_a_number_is_short(value: int | None, text: str) -> None:
    assert plain(short_number(value)) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0004, "< 0.1 %"), (0.015, "1.5 %"), (0.62, "62 %"), (0.9999, "99 %"), (1, "100 %"), (None, "–")],
)
def test_a_share_is_all_only_if_it_is_all(share: float | None, text: str) -> None:
    assert plain(percent(share)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0/s"), (0.01, "< 0.1/s"), (14.84, "14.8/s"), (1204, "1,204/s"), (None, "–")]
)
def test_a_rate_is_rounded_and_never_looks_like_nothing(value: float | None, text: str) -> None:
    assert plain(rate(value, "/s")) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (412, "412 B"), (1023, "1.0 KiB"), (432_013_312, "412 MiB"), (1.5 * 2**30, "1.5 GiB"), (None, "–")],
)
def test_a_size_is_said_in_the_unit_that_fits(size: float | None, text: str) -> None:
    assert plain(bytes_text(size)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.00001, "< 0.1 ms"),
        (0.0034, "3.4 ms"),
        (0.84, "0.84 s"),
        (0.999, "1.0 s"),
        (2.41, "2.4 s"),
        (47, "47 s"),
        (59.7, "1 min"),
        (128, "2 min 08 s"),
        (2820, "47 min"),
        (7690, "2 h 8 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float | None, text: str) -> None:
    assert plain(duration(seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0 s"), (0.02, "< 0.1 s"), (0.9, "0.9 s"), (2.0, "2 s"), (59.7, "1 min"), (2879, "47 min")],
)
def test_an_age_has_one_unit(seconds: float | None, text: str) -> None:
    assert plain(short_duration(seconds)) == text


def test_a_time_is_said_from_now() -> None:
    times = [NOW - timedelta(seconds=47.4), NOW, NOW + timedelta(minutes=2), None]
    assert [plain(ago(time, NOW)) for time in times] == ["47 s ago", "0 s ago", "in 2 min", "–"]


def test_the_clock_names_the_date_only_if_it_is_another_day() -> None:
    times = [NOW, NOW - timedelta(days=5), NOW - timedelta(days=400), None]
    assert [plain(clock(time, NOW)) for time in times] == ["14:32:08", "10 Nov 14:32", "11 Oct 2025 14:32", "–"]


def test_titles_and_attributes_have_the_whole_time_with_its_zone() -> None:
    assert (exact(NOW), iso(NOW)) == ("2026-11-15 14:32:08 UTC", "2026-11-15T14:32:08Z")


def test_a_short_id_is_the_end_of_the_id() -> None:
    assert short_id("019a8777-4e21-7c90-b3f4-0a6be2d913c7") == "e2d913c7"


def test_a_text_in_a_list_is_one_line_of_at_most_200_characters() -> None:
    assert cut("a\n\tb  c") == "a b c"
    assert cut(f"3{NBSP}s") == "3 s"
    assert len(cut("x" * 100_000)) == 200
    assert cut("x" * 100_000).endswith("…")


def test_control_characters_are_shown_as_escapes() -> None:
    assert cut("\x1b[31mred") == r"\x1b[31mred"
    assert visible("a \x1b[31m\n\u202eb") == "a \\x1b[31m\n\\u202eb"


def test_json_is_split_into_lines_of_typed_tokens() -> None:
    assert json_lines({"feed": "a", "rows": [1, None]}) == [
        [("mark", "{")],
        [("mark", "  "), ("key", '"feed"'), ("mark", ": "), ("text", '"a"'), ("mark", ",")],
        [("mark", "  "), ("key", '"rows"'), ("mark", ": "), ("mark", "[")],
        [("mark", "    "), ("number", "1"), ("mark", ",")],
        [("mark", "    "), ("word", "null")],
        [("mark", "  "), ("mark", "]")],
        [("mark", "}")],
    ]


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (MASK, ("masked", "masked (sensitive)")),
        (True, ("word", "true")),
        ({}, ("mark", "{}")),
        ([], ("mark", "[]")),
        ("\x1b\u202e", ("text", r'"\u001b\u202e"')),
        (1.5, ("number", "1.5")),
    ],
)
def test_a_json_value_has_its_kind(value: object, token: tuple[str, str]) -> None:
    assert json_lines(value) == [[token]]


def test_long_json_says_that_the_rest_is_left_out() -> None:
    lines = json_lines(list(range(1000)), limit=10)
    assert (len(lines), lines[-1][0][0]) == (11, "more")


def test_json_deeper_than_a_message_may_be_does_not_fail() -> None:
    value: object = 1
    for _ in range(500):
        value = [value]
    assert json_lines(value)
