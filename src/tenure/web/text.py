"""Text of the dashboard's pages: numbers, times, sizes, ids and JSON, written for reading.

Pure functions, used as filters of the templates, which escape what they return.
Times are aware datetimes in UTC. A number and its unit are joined with a no-break space. What is unknown is a dash.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tenure.redaction import MASK, escape_controls, one_line, printable

NBSP = "\N{NO-BREAK SPACE}"
DASH = "–"
LIST_CHARACTERS = 200  # of a text that a job carries, where a page lists jobs
JSON_LINES = 400
_MAX_LEVELS = 64  # the depth that a message may have
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")

Token = tuple[str, str]


def number(value: float | None) -> str:
    """5,568; a number that is not whole gets one decimal."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.1f}"


def short_number(value: float | None) -> str:
    """1.20 M from one million on, the whole number below."""
    if value is None or value < 1_000_000:
        return number(value)
    size, unit = (1e9, "G") if value >= 999_500_000 else (1e6, "M")
    scaled = value / size
    return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{NBSP}{unit}"


def percent(share: float | None) -> str:
    """A share of 1 in percent: one decimal below ten percent, and 100 only if it is all."""
    if share is None:
        return DASH
    hundredths = share * 100
    if 0 < hundredths < 0.05:
        return f"<{NBSP}0.1{NBSP}%"
    if 0 < hundredths < 9.95:
        return f"{hundredths:.1f}{NBSP}%"
    return f"{min(round(hundredths), 99) if hundredths < 100 else round(hundredths)}{NBSP}%"


def rate(value: float | None, unit: str = "") -> str:
    """How many a second, without the unit unless it is given ("/s")."""
    if value is None:
        return DASH
    if 0 < value < 0.05:
        return f"<{NBSP}0.1{unit}"
    return f"{value:,.0f}{unit}" if value == 0 or value >= 100 else f"{value:.1f}{unit}"


def bytes_text(size: float | None) -> str:
    """412 B, 1.5 GiB."""
    if size is None:
        return DASH
    scaled, at = float(size), 0
    while scaled >= 1000 and at < len(_SIZES) - 1:
        scaled, at = scaled / 1024, at + 1
    decimals = 1 if at and scaled < 9.95 else 0
    return f"{scaled:.{decimals}f}{NBSP}{_SIZES[at]}"


def duration(seconds: float | None) -> str:
    """0.84 s, 2.4 s, 47 s, 2 min 08 s, 3 d 4 h: at most two units, the second left out if it is 0."""
    if seconds is None:
        return DASH
    if seconds < 59.5:
        return _below_a_minute(seconds)
    whole = round(seconds)
    at = next(at for at, (_, size) in enumerate(_UNITS) if whole >= size)
    (unit, size), (small_unit, small_size) = _UNITS[at], _UNITS[at + 1]
    small = whole % size // small_size
    first = f"{whole // size}{NBSP}{unit}"
    padded = f"{small:02d}" if small_unit == "s" else str(small)  # so that running seconds keep their width
    return f"{first}{NBSP}{padded}{NBSP}{small_unit}" if small else first


def short_duration(seconds: float | None) -> str:
    """The same in one unit, for columns of ages: 0.9 s, 2 s, 47 min, 3 d."""
    if seconds is None or seconds <= 0:
        return duration(seconds)
    if seconds < 0.95:
        return f"{seconds:.1f}{NBSP}s" if seconds >= 0.05 else f"<{NBSP}0.1{NBSP}s"
    unit, size = next(each for each in _UNITS if round(seconds) >= each[1])
    return f"{round(seconds) // size}{NBSP}{unit}"


def _below_a_minute(seconds: float) -> str:
    if seconds <= 0:
        return f"0{NBSP}s"
    if seconds < 0.00995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.1f}{NBSP}ms" if milliseconds >= 0.05 else f"<{NBSP}0.1{NBSP}ms"
    decimals = 2 if seconds < 0.995 else 1 if seconds < 9.95 else 0
    return f"{seconds:.{decimals}f}{NBSP}s"


def ago(time: datetime | None, now: datetime) -> str:
    """47 s ago, in 2 min."""
    if time is None:
        return DASH
    seconds = (now - time).total_seconds()
    text = short_duration(round(abs(seconds)))
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def clock(time: datetime | None, now: datetime) -> str:
    """The time of day; with the date if that is not today's, with the year if that is another one."""
    if time is None:
        return DASH
    if time.date() == now.date():
        return f"{time:%H:%M:%S}"
    year = "" if time.year == now.year else f"{NBSP}{time.year}"
    return f"{time.day}{NBSP}{time:%b}{year}{NBSP}{time:%H:%M}"


def exact(time: datetime | None) -> str:
    """The whole time with its zone, for titles."""
    return DASH if time is None else f"{time:%Y-%m-%d %H:%M:%S} {time.tzname() or ''}".rstrip()


def iso(time: datetime) -> str:
    """The value of a `time` element's attribute."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def short_id(job_id: str) -> str:
    """The last eight characters: ids begin with the time, so their beginnings look alike."""
    return job_id[-8:]


def cut(text: str | None, length: int = LIST_CHARACTERS) -> str:
    """The text on one line, control characters shown as escapes, at most this long."""
    if text is None:
        return DASH
    line = one_line(text[: length * 4].replace(NBSP, " "))  # 4: whitespace shrinks, and a payload may be a megabyte
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def visible(text: str) -> str:
    """The whole text with control characters shown as escapes; lines and spaces stay."""
    return printable(text)


def json_lines(value: Any, limit: int = JSON_LINES) -> list[list[Token]]:
    """The value as lines of tokens (kind, text); kinds: key, text, number, word, masked, mark and more (the rest)."""
    lines: list[list[Token]] = [[]]
    for kind, text in _tokens(value, 0):
        if kind != "break":
            lines[-1].append((kind, text))
        elif len(lines) == limit:
            return [*lines, [("more", "… the rest is left out")]]
        else:
            lines.append([("mark", text)] if text else [])
    return lines


def _tokens(value: Any, level: int) -> Iterator[Token]:
    if isinstance(value, dict) and value and level < _MAX_LEVELS:
        yield from _group("{}", [(str(key), item) for key, item in value.items()], level)
    elif isinstance(value, list | tuple) and value and level < _MAX_LEVELS:
        yield from _group("[]", [(None, item) for item in value], level)
    elif value == MASK:
        yield "masked", "masked (sensitive)"
    elif isinstance(value, str):
        yield "text", _quoted(value)
    elif value is None or isinstance(value, bool):
        yield "word", json.dumps(value)
    elif isinstance(value, int | float):
        yield "number", str(value)
    else:
        yield "mark", cut(str(value))


def _group(brackets: str, members: Sequence[tuple[str | None, Any]], level: int) -> Iterator[Token]:
    yield "mark", brackets[0]
    for at, (key, item) in enumerate(members, 1):
        yield "break", "  " * (level + 1)
        if key is not None:
            yield "key", _quoted(key)
            yield "mark", ": "
        yield from _tokens(item, level + 1)
        if at < len(members):
            yield "mark", ","
    yield "break", "  " * level
    yield "mark", brackets[1]


def _quoted(text: str) -> str:
    return escape_controls(json.dumps(text, ensure_ascii=False))
