"""Frequency: the five fields of a cron expression; each helper overwrites only the fields it names."""

import re
from collections.abc import Iterable
from datetime import datetime, time

from msgspec import Struct, structs

from tenure.definition.expression import read, split
from tenure.errors import InvalidSchedule

_TIME = re.compile(r"\s*(\d{1,2})(?::(\d{2}))?\s*(am|pm)?\s*", re.IGNORECASE)
_PHRASES = {"midnight": (0, 0), "noon": (12, 0)}


class Frequency(Struct, frozen=True):
    """Immutable: every helper returns a changed copy, so they compose in any order."""

    minute: str = "*"
    hour: str = "*"
    day: str = "*"
    month: str = "*"
    weekday: str = "*"

    def __str__(self) -> str:
        return f"{self.minute} {self.hour} {self.day} {self.month} {self.weekday}"

    def set(self, **fields: str) -> "Frequency":
        return structs.replace(self, **fields)

    def at(self, moment: str | time) -> "Frequency":
        hour, minute = parse_time(moment)
        return self.set(minute=str(minute), hour=str(hour))


def parse(expression: str) -> Frequency:
    """A five-field expression or nickname; the message names the field at fault."""
    read(expression)
    return Frequency(*split(expression))


def parse_time(text: str | time) -> tuple[int, int]:
    """Hour and minute from "02:00", "4:08 pm", "noon", "midnight" or a `time`."""
    if isinstance(text, time):
        return text.hour, text.minute
    if text.strip().lower() in _PHRASES:
        return _PHRASES[text.strip().lower()]
    match = _TIME.fullmatch(text)
    if match is not None and (match[2] or match[3]):
        pattern, words = (
            ("%I:%M %p", f"{match[1]}:{match[2] or '00'} {match[3]}") if match[3] else ("%H:%M", text.strip())
        )
        try:
            moment = datetime.strptime(words, pattern)
        except ValueError:
            pass
        else:
            return moment.hour, moment.minute
    raise InvalidSchedule(f'{text!r} is not a time of day; write it as "02:00", "4:08 pm", "noon" or "midnight"')


def number(value: int, low: int, high: int, what: str) -> str:
    if type(value) is not int or not low <= value <= high:
        raise InvalidSchedule(f"{what} must be a whole number from {low} to {high}, got {value!r}")
    return str(value)


def listing(values: int | Iterable[int], low: int, high: int, what: str) -> str:
    chosen = [values] if isinstance(values, int) else list(values)
    if not chosen:
        raise InvalidSchedule(f"{what} needs at least one value")
    return ",".join(number(value, low, high, what) for value in chosen)


def step(value: int, high: int, what: str) -> str:
    return "*" if value == 1 else f"*/{number(value, 1, high, what)}"


def span(first: int, last: int, high: int, what: str) -> str:
    """A range; one that ends before it begins goes on past the end of the field, as in from 22 to 6 o'clock."""
    begin, end = number(first, 0, high, what), number(last, 0, high, what)
    return f"{begin}-{end}" if first <= last else f"{begin}-{high},0-{end}"
