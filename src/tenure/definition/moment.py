"""Moments in the forms that users write: a datetime, epoch seconds, ISO text, or a phrase such as "tomorrow 09:00".

A phrase, and ISO text without an offset, mean an instant only with a time zone and the present time. A job keeps such
text until it is enqueued, so that "in 10 minutes" counts from then.
"""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from tenure.clock import to_datetime
from tenure.definition.cron_expression import find_zone, parse_time
from tenure.definition.duration import to_moment, to_seconds
from tenure.errors import InvalidJob, InvalidSchedule

When = datetime | str | int | float
"""The forms of an option such as `at`."""

_FORMS = (
    'a datetime with a time zone, epoch seconds, ISO text ("2030-01-01T09:00:00+02:00"), '
    'or a phrase ("in 10 minutes", "tomorrow 09:00", "next monday 8am", "noon")'
)
_EARLIEST_EPOCH = 946_684_800  # the year 2000: a smaller number is meant as a delay
_LATEST_EPOCH = 253_402_300_799  # the end of the year 9999: a larger number is in milliseconds or microseconds
_MAX_CHARACTERS = 100
_FROM_NOW = re.compile(r"(?:in\s+|\+\s*)(.+)|(.+?)\s+from\s+now", re.IGNORECASE)
_ISO_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}", re.ASCII)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS = {name: number for number, day in enumerate(_WEEKDAYS) for name in (day, day[:3])}
_ANY_MOMENT = datetime(2020, 1, 1, tzinfo=UTC)


def check_moment(value: When, what: str) -> datetime | str:
    """The instant in UTC; or the text as it is, checked, if the instant depends on the present time or a time zone."""
    if isinstance(value, str):
        if (moment := _parse_iso(value)) is not None and moment.tzinfo is not None:
            return to_moment(moment, what)
        _read_text(value, what, _ANY_MOMENT, UTC)
        return value
    if isinstance(value, datetime):
        return to_moment(value, what)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidJob(f"{what} must be {_FORMS}, not {value!r:.80}")
    if not _EARLIEST_EPOCH <= value <= _LATEST_EPOCH:
        raise InvalidJob(
            f"{what} takes seconds since 1970, from the year 2000 on, got {value!r}; "
            f"write delay={value!r} for seconds from now, or a datetime"
        )
    return datetime.fromtimestamp(value, UTC)


def to_instant(value: When, what: str, now: int, timezone: str) -> datetime:
    """The instant in UTC; phrases count from `now` (UTC microseconds), and times without an offset are in the zone."""
    moment = check_moment(value, what)
    if isinstance(moment, datetime):
        return moment
    return _read_text(moment, what, to_datetime(now), find_zone(timezone))


def _read_text(text: str, what: str, now: datetime, zone: tzinfo) -> datetime:
    words = text.split()
    if not words or len(text) > _MAX_CHARACTERS:
        raise InvalidJob(f"{what} {text!r:.80} is not a time; write {_FORMS}")
    if found := _FROM_NOW.fullmatch(text.strip()):
        return now + timedelta(seconds=to_seconds(found[1] or found[2], what))
    if len(words) > 1 and ("/" in words[-1] or words[-1] == "UTC"):
        zone = find_zone(words.pop())
    try:
        local = _local_time(words, now.astimezone(zone).replace(tzinfo=None))
    except (ValueError, OverflowError):  # InvalidSchedule of the time of day is a ValueError
        raise InvalidJob(f"{what} {text!r} is not a time; write {_FORMS}") from None
    if local.tzinfo is not None:
        raise InvalidJob(f"{what} {text!r} has both an offset and a time zone; write one of them")
    return to_moment(local.replace(tzinfo=zone), what)


def _local_time(words: list[str], now: datetime) -> datetime:
    """The local time of a phrase without its zone; `now` is the present local time."""
    if (moment := _parse_iso(" ".join(words))) is not None:
        return moment
    rest = [word.lower().rstrip(",") for word in words if word.lower() not in ("at", "on")]
    if rest == ["now"]:
        return now
    is_next = rest[:1] == ["next"]
    day, rest = _take_day(rest[is_next:])
    if day is None and (is_next or not rest):
        raise InvalidSchedule("a phrase needs a day or a time of day")
    at = time(*parse_time(" ".join(rest))) if rest else time()
    if day is None:  # the next time that a clock shows this time
        found = datetime.combine(now, at)
        return found if found > now else found + timedelta(days=1)
    if day in ("today", "tomorrow"):
        if is_next:
            raise InvalidSchedule("only a day of the week can be the next one")
        return datetime.combine(now + timedelta(days=day == "tomorrow"), at)
    found = datetime.combine(now + timedelta(days=(_DAYS[day] - now.weekday()) % 7), at)
    passed = found.date() == now.date() and (is_next or found <= now)
    return found + timedelta(days=7 * passed)


def _take_day(words: list[str]) -> tuple[str | None, list[str]]:
    """The word for the day, which is the first or the last, and the other words."""
    for place in (0, -1):
        if words and (words[place] in ("today", "tomorrow") or words[place] in _DAYS):
            rest = list(words)
            return rest.pop(place), rest
    return None, words


def _parse_iso(text: str) -> datetime | None:
    """The datetime of ISO text that begins with a date; a date alone means its midnight."""
    if not _ISO_DATE.match(text.strip()):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None
