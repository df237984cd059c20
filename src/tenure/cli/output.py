"""What commands print: JSON for programs, facts, live lines on a terminal; `tables.py` prints tables.

Every text is redacted, and characters that could control a terminal are escaped.
"""

import os
import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, TextIO

import click
import msgspec

from tenure.backends.records import LaneRecord
from tenure.cli.errors import current_redactor
from tenure.clock import to_datetime
from tenure.redaction import escape_controls, printable
from tenure.worker.lane import Lane

ERASE_LINE = "\x1b[2K"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORT_ID = 18  # characters: the time and the counter of a UUIDv7, which no two ids of one process share

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    encoded = msgspec.json.encode(current_redactor().mask(value))
    click.echo(escape_controls(msgspec.json.format(encoded, indent=2).decode()))


def print_json_line(value: Any) -> None:
    click.echo(escape_controls(msgspec.json.encode(current_redactor().mask(value)).decode()))


def print_facts(values: Mapping[str, Any]) -> None:
    """Print one `name: value` per line; values that are None are left out."""
    known = {name: value for name, value in values.items() if value is not None}
    width = max(map(len, known), default=0) + 1
    for name, value in known.items():
        click.echo(f"{bold(f'{name}:'.ljust(width))} {format_value(value)}")


def format_value(value: Any) -> str:
    """A value for people to read, redacted, without control characters."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return printable(current_redactor().text(value))
    if isinstance(value, datetime):
        return value.astimezone().isoformat(" ", timespec="seconds")
    return printable(msgspec.json.encode(current_redactor().mask(value)).decode())


def short_id(id: str) -> str:
    """The first part of a UUID, which commands accept too; any other id as it is."""
    return id[:_SHORT_ID] if UUID.fullmatch(id) else id


def cut_to(text: str, width: int) -> str:
    """The text, or of a longer one its beginning and an ellipsis."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def format_lane(lane: Lane | LaneRecord) -> str:
    """As `mail: emails, default (process × 2)`."""
    name = f"{lane.name}: " if lane.name else ""
    return f"{name}{', '.join(lane.queues)} ({lane.runner} × {lane.concurrency})"


def format_seconds(value: float | None) -> str:
    """A duration with about three digits, as `1.23 s`, `850 ms` or `42 µs`."""
    if value is None:
        return "-"
    if 0 < value < 0.001:
        return f"{value * 1e6:.3g} µs"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:.0f} s"


def format_megabytes(value: int) -> str:
    return f"{value / 1e6:.0f} MB"


def as_datetime(microseconds: int | None) -> datetime | None:
    """A stored time; `print_json` prints it in UTC, `format_value` in local time."""
    return None if microseconds is None else to_datetime(microseconds)


def uses_colours(stream: TextIO) -> bool:
    """Whether text with colours may be written to this stream."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def bold(words: str) -> str:
    """Bold text; `click.echo` removes the style when the output is not a terminal."""
    return click.style(words, bold=True)


class LiveLine:
    """One terminal line that each `show` overwrites; when the stream is not a terminal it prints nothing.

    The cursor stays at the start of the line, so any other output replaces it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_live = stream.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.clear()

    def clear(self) -> None:
        self._write("")

    def show(self, text: str) -> None:
        self._write(cut_to(text, shutil.get_terminal_size().columns - 1))

    def _write(self, text: str) -> None:
        if self.is_live:
            self._stream.write(f"{ERASE_LINE}{text}\r")
            self._stream.flush()
