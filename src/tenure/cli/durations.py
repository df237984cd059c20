"""Lengths of time on the command line: plain numbers are seconds."""

from tenure.clock import MICROSECOND
from tenure.definition.duration import to_seconds


def as_given(text: str) -> float | str:
    """A number where it is one; other text is checked where it is used."""
    return float(text) if text.replace(".", "", 1).isdecimal() else text


def microseconds(text: str, option: str) -> int:
    return round(to_seconds(as_given(text), option) * MICROSECOND)


def as_text(text: str) -> str:
    """A length of time as it was given, and what a plain number means."""
    return f"{text} s" if isinstance(as_given(text), float) else text
