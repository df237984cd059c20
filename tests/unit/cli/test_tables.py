"""Tables fit the terminal: columns are left out, texts are cut, times are ages."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from tenure.cli.output import cut_to, format_seconds, short_id
from tenure.cli.tables import Column, draw_table, format_age

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)


def drawn(columns, rows, width=80):
    return [click.unstyle(line).rstrip() for line in draw_table(columns, rows, width, NOW)]


@pytest.mark.parametrize(
    ("ago", "age"),
    [
        ({"milliseconds": 400}, "now"),
        ({"seconds": 12}, "12 s ago"),
        ({"seconds": 150}, "2 min ago"),
        ({"hours": 3}, "3 h ago"),
        ({"hours": 47}, "47 h ago"),
        ({"days": 5}, "5 d ago"),
        ({"days": 70}, "2026-01-18"),
        ({"seconds": -9.5}, "in 10 s"),
        ({"seconds": -(3 * 3600 - 20)}, "in 3 h"),
        ({"days": -70}, "2026-06-07"),
    ],
)
def test_a_time_is_shown_as_an_age(ago, age):
    assert format_age(NOW - timedelta(**ago), NOW) == age


def test_columns_are_aligned_and_numbers_stand_on_the_right():
    table = drawn([Column("queue"), Column("ready"), Column("note")], [["mail", 5, None], ["reports", 120, "slow"]])
    assert table == ["queue    ready  note", "mail         5  -", "reports    120  slow"]


def test_the_least_important_columns_are_left_out_until_the_table_fits():
    columns = [Column("id"), Column("queue", rank=1), Column("name", rank=2)]
    row = ["0" * 18, "q" * 12, "n" * 12]
    assert drawn(columns, [row], 60)[0] == f"{'id':18}  {'queue':12}  name"
    assert drawn(columns, [row], 40)[0] == f"{'id':18}  queue"
    assert drawn(columns, [row], 20)[0] == "id"


def test_an_optional_column_without_a_value_is_left_out():
    columns = [Column("id"), Column("why", rank=1), Column("note")]
    assert drawn(columns, [["1", None, None], ["2", "", None]]) == ["id  note", "1   -", "2   -"]


def test_the_longest_text_is_cut_with_an_ellipsis_and_the_first_column_is_not():
    lines = drawn([Column("id"), Column("error")], [["0" * 18, "x" * 100]], 50)
    assert lines[1] == f"{'0' * 18}  {'x' * 29}…"
    assert max(map(len, lines)) == 50


def test_a_text_becomes_shorter_still_if_no_column_can_be_left_out():
    lines = drawn([Column("id"), Column("error"), Column("n")], [["0" * 18, "x" * 100, 7]], 40)
    assert lines[1] == f"{'0' * 18}  {'x' * 16}…  7"


def test_wide_characters_count_twice():
    lines = drawn([Column("name"), Column("n")], [["日本", 1], ["abcd", 2]])
    assert lines[1:] == ["日本  1", "abcd  2"]


def test_times_are_ages_unless_a_column_shows_them_itself():
    columns = [Column("due"), Column("at", show=lambda time: f"{time:%H:%M}")]
    assert drawn(columns, [[NOW, NOW]])[1] == "now  12:00"


def test_states_have_colours():
    _, line = draw_table([Column("state")], [["dead"]], 80, NOW)
    assert line == "\x1b[31mdead \x1b[0m"


def test_a_value_cannot_control_the_terminal():
    assert drawn([Column("name")], [["\x1b[2J"]])[1] == "\\x1b[2J"


@pytest.mark.parametrize(
    ("id", "shown"),
    [("019a9250-7c3e-7a1f-8a90-0123456789ab", "019a9250-7c3e-7a1f"), ("order-17", "order-17"), ("0" * 40, "0" * 40)],
)
def test_an_id_that_is_a_uuid_is_shown_short(id, shown):
    assert short_id(id) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0 ms"), (0.0000421, "42.1 µs"), (0.85, "850 ms"), (1.234, "1.23 s"), (4000, "4000 s")],
)
def test_a_duration_has_about_three_digits(seconds, text):
    assert format_seconds(seconds) == text


def test_a_text_is_cut_to_a_width():
    assert (cut_to("abcdef", 6), cut_to("abcdef", 4), cut_to("abc", 0)) == ("abcdef", "abc…", "…")
