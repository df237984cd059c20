"""Everything that is printed as data: JSON for programs, tables on a terminal, tab-separated lines elsewhere."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from tenure.backends.upkeep import LaneRecord
from tenure.cli.failures import redactor
from tenure.cli.logs import harmless
from tenure.clock import to_datetime
from tenure.redaction import printable
from tenure.worker.lane import Lane


def as_json(value: Any) -> None:
    click.echo(harmless(msgspec.json.format(msgspec.json.encode(redactor().mask(value)), indent=2).decode()))


def as_json_line(value: Any) -> None:
    click.echo(harmless(msgspec.json.encode(redactor().mask(value)).decode()))


def on_terminal() -> bool:
    """Whether a person looks at stdout, or FORCE_COLOR says that one does."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [[" ".join(text(value).split()) for value in row] for row in rows]
    if not on_terminal():
        for row in (columns, *cells):
            click.echo("\t".join(row))
        return
    from rich.console import Console  # 45 ms: only for those who see a table
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        numeric = all(isinstance(row[position], int) for row in rows)
        # The first column names the row and is copied from: it is never folded.
        drawn.add_column(
            column, justify="right" if numeric else "left", overflow="fold", no_wrap=not position or numeric
        )
    for row in cells:
        drawn.add_row(*map(Text, row))  # Text: brackets in a job's name are not markup
    Console().print(drawn)


def lane(lane: Lane | LaneRecord) -> str:
    """As `mail: emails, default (process × 2)`."""
    name = f"{lane.name}: " if lane.name else ""
    return f"{name}{', '.join(lane.queues)} ({lane.runner} × {lane.concurrency})"


def facts(values: Mapping[str, Any]) -> None:
    """One `name: value` a line; what is unknown is left out."""
    known = {name: value for name, value in values.items() if value is not None}
    width = max(map(len, known), default=0) + 1
    for name, value in known.items():
        click.echo(f"{bold(f'{name}:'.ljust(width))} {text(value)}")


def text(value: Any) -> str:
    """A value as a person reads it, harmless to a terminal."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return printable(redactor().text(value))
    if isinstance(value, datetime):
        return value.astimezone().isoformat(" ", timespec="seconds")
    return printable(msgspec.json.encode(redactor().mask(value)).decode())


def bold(words: str) -> str:
    """For the line that people look for; `click.echo` takes it away where there is no terminal."""
    return click.style(words, bold=True)


def seconds(value: float | None) -> str:
    """A length of time with about three digits, as `1.23 s` or `850 ms`."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:.0f} s"


def megabytes(value: int) -> str:
    return f"{value / 1e6:.0f} MB"


def moment(microseconds: int | None) -> datetime | None:
    """A stored time: UTC in JSON, local time for people."""
    return None if microseconds is None else to_datetime(microseconds)
