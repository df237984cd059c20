"""Durations and moments in the forms that users write, converted to seconds and to UTC."""

import re
from datetime import UTC, datetime, timedelta

from tenure.definition.limits import CENTURY, shown
from tenure.errors import InvalidJob

_UNITS = {  # seconds, by the words that users write
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604800.0),
}
_PART = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(sorted(_UNITS, key=len, reverse=True))})(?![a-z])")
_WHOLE = re.compile(rf"\s*(?:{_PART.pattern}\s*)+")

Duration = float | int | timedelta | str


def to_seconds(value: Duration, what: str = "duration") -> float:
    """Seconds from a number, a timedelta or text such as "10m", "1h 30m" or "10 minutes"."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _parse(value, what)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidJob(f'{what} must be seconds, a timedelta or text such as "10m", not {value!r}')
    else:
        seconds = value
    if not is_length(seconds):
        raise InvalidJob(f"{what} must lie between 0 and 100 years, got {shown(value)}")
    return float(seconds)


def is_length(seconds: object) -> bool:
    """Whether this is a number of seconds from 0 to 100 years; a longer time is a mistake."""
    return isinstance(seconds, (int, float)) and 0 <= seconds <= CENTURY


def to_moment(value: datetime, what: str) -> datetime:
    """The same instant in UTC; a datetime without a time zone is refused, because it names no instant."""
    if not isinstance(value, datetime):
        raise InvalidJob(f"{what} must be a datetime, not {value!r}")
    if value.tzinfo is None:
        raise InvalidJob(
            f"{what} has no time zone: {value!r}; write datetime(..., tzinfo=UTC) or attach a zoneinfo.ZoneInfo"
        )
    if value.tzinfo is UTC:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidJob(f"{what} is outside the years 1 to 9999 in UTC: {value!r}") from None


def _parse(text: str, what: str) -> float:
    if len(text) > 64 or not _WHOLE.fullmatch(text):
        forms = '"30s", "10m", "1h 30m", "10 minutes" or "2d"'
        raise InvalidJob(f"{what} {text!r:.80} is not a duration; write it as {forms}")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
