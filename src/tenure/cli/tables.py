"""Tables: on a terminal they fit its width, with short ids, ages and colours; elsewhere tab-separated full values.

Too wide a table first loses its least important columns, then its longest texts are cut.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

import click

from tenure.cli.output import bold, format_value

_GAP = "  "
_LEAST_TEXT = 24  # characters: before a text is cut to less, a less important column is left out
_SHORTEST_TEXT = 8  # if no column can be left out any more
_STATE_COLOURS = {
    "done": "green", "succeeded": "green", "leased": "cyan", "running": "cyan", "delayed": "yellow",
    "parked": "yellow", "dead": "red", "failed": "red", "cancelled": "bright_black", "expired": "bright_black",
    "skipped": "bright_black", "retried": "yellow",
}  # fmt: skip
_AGE_UNITS = ((60, 1, "s"), (3600, 60, "min"), (48 * 3600, 3600, "h"), (60 * 86400, 86400, "d"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `rank` 0 is always shown, the highest rank is left out first, or if it has no value.

    `show` makes the text for a terminal; without it a time becomes an age. `plain` makes it for programs.
    """

    name: str
    title: str | None = None
    rank: int = 0
    show: Callable[[Any], str] | None = None
    plain: Callable[[Any], str] | None = None


def print_table(columns: Sequence[str | Column], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows of values, for people on a terminal and for programs elsewhere."""
    table = [Column(column) if isinstance(column, str) else column for column in columns]
    if not shows_tables():
        click.echo("\t".join(column.name for column in table))
        for row in rows:
            click.echo("\t".join(_text(column.plain, value) for column, value in zip(table, row, strict=True)))
        return
    for line in draw_table(table, rows, shutil.get_terminal_size().columns, datetime.now(UTC)):
        click.echo(line)


def print_rows(columns: Sequence[str | Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """As `print_table`, with the fields of each row that the columns name."""
    names = [column if isinstance(column, str) else column.name for column in columns]
    print_table(columns, [[row[name] for name in names] for row in rows])


def draw_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int, now: datetime) -> list[str]:
    """The lines of a table that is at most so wide, the first with the titles."""
    cells = [[_cell(column, value, now) for column, value in zip(columns, row, strict=True)] for row in rows]
    titles = [column.title or column.name for column in columns]
    natural = [max(map(_cells, column)) for column in zip(titles, *cells, strict=True)]
    is_number = [_is_number([row[at] for row in rows]) for at in range(len(columns))]
    least = [size if number or not at else min(size, _LEAST_TEXT) for at, (size, number) in
             enumerate(zip(natural, is_number, strict=True))]  # fmt: skip
    shown = _chosen(columns, rows, least, width)
    widths = _fitted([natural[at] for at in shown], [least[at] for at in shown], width)
    lines = []
    for number, row in enumerate([titles, *cells]):
        texts = [_padded(row[at], size, right=is_number[at]) for at, size in zip(shown, widths, strict=True)]
        value = rows[number - 1] if number else None
        styled = [bold(text) if value is None else _styled(columns[at].name, value[at], text)
                  for at, text in zip(shown, texts, strict=True)]  # fmt: skip
        lines.append(_GAP.join(styled).rstrip())
    return lines


def format_age(moment: datetime, now: datetime) -> str:
    """As `12 s ago`, `2 min ago`, `in 3 h`; a time more than two months away is a date."""
    seconds = (now - moment).total_seconds()
    for limit, unit, word in _AGE_UNITS:
        if abs(seconds) < limit:
            if word == "s" and 0 <= seconds < 1:
                return "now"
            return f"{int(seconds // unit)} {word} ago" if seconds > 0 else f"in {ceil(-seconds / unit)} {word}"
    return f"{moment.astimezone():%Y-%m-%d}"


def _chosen(columns: Sequence[Column], rows: Sequence[Sequence[Any]], least: Sequence[int], width: int) -> list[int]:
    """The positions of the columns to show: without those that have no value, and those that do not fit."""
    shown = [
        at for at, column in enumerate(columns)
        if not column.rank or any(row[at] for row in rows)
    ]  # fmt: skip
    while sum(least[at] + len(_GAP) for at in shown) - len(_GAP) > width:
        worst = max(shown, key=lambda at: columns[at].rank)
        if not columns[worst].rank:
            break
        shown.remove(worst)
    return shown


def _fitted(natural: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """The widths of columns: the widest of those that can be cut gives way until all fit."""
    widths, left = list(natural), width - len(_GAP) * (len(natural) - 1)
    for limits in (least, [min(size, _SHORTEST_TEXT) if size == _LEAST_TEXT else size for size in least]):
        while sum(widths) > left:
            can_shrink = [at for at, size in enumerate(widths) if size > limits[at]]
            if not can_shrink:
                break
            widths[max(can_shrink, key=lambda at: widths[at])] -= 1
    return widths


def _cell(column: Column, value: Any, now: datetime) -> str:
    if isinstance(value, datetime) and column.show is None:
        return format_age(value, now)
    return _text(column.show, value)


def _text(show: Callable[[Any], str] | None, value: Any) -> str:
    return " ".join(format_value(value if show is None or value is None else show(value)).split())


def _is_number(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int) for value in known)


def _styled(name: str, value: Any, text: str) -> str:
    if name in ("state", "job_state") and value in _STATE_COLOURS:
        return click.style(text, fg=_STATE_COLOURS[value])
    if name == "dead" and value:
        return click.style(text, fg="red")
    return text


def _padded(text: str, width: int, *, right: bool) -> str:
    if (size := _cells(text)) > width:
        text, size = f"{_cut(text, width - 1)}…", width
    space = " " * max(0, width - size)
    return space + text if right else text + space


def _cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # takes 10 ms: imported only for texts that need it

    return cell_len(text)


def _cut(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    from rich.cells import set_cell_size

    return set_cell_size(text, width)


def shows_tables() -> bool:
    """Whether stdout is a terminal, or FORCE_COLOR asks for the output of one."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
