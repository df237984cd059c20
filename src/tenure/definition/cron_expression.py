"""Cron expressions: five fields that are parsed and searched, built up field by field, and names of time zones.

The search works on labels. A label is a local time: a datetime without a time zone. `tenure.cron.schedule` turns labels
into instants.
"""

import calendar
import re
from collections.abc import Iterable
from copy import copy
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import cast
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field
from msgspec import Struct, structs

from tenure.errors import InvalidSchedule

FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ALLOWED = (
    "0 to 59",
    "0 to 23",
    "1 to 31, L for the last day, LW for the last weekday, 15W for the weekday nearest to the 15th",
    "1 to 12 or JAN to DEC",
    "0 to 7 or SUN to SAT (0 and 7 are Sunday), 5L for the last Friday, 2#1 for the first Tuesday",
)
_LARGEST_STEP = (59, 23, 31, 12, 7)
_MAX_CHARACTERS = 256
_MINUTE = timedelta(minutes=1)
_NEAREST_WEEKDAY = re.compile(r"([1-9]|[12]\d|3[01])W")
_ERA = datetime(2000, 1, 1)  # a label; dates and weekdays repeat every 28 years until 2100
_TIME = re.compile(r"\s*(\d{1,2})(?::(\d{2}))?\s*(am|pm)?\s*", re.IGNORECASE | re.ASCII)
_TIME_NAMES = {"midnight": (0, 0), "noon": (12, 0)}


class CronExpression:
    """Five fields that match at some time; other text is refused with an error that names the wrong field."""

    def __init__(self, text: str) -> None:
        self.fields = split_fields(text)
        self._search = _checked_search(text, self.fields)

    def __str__(self) -> str:
        return " ".join(self.fields)

    @property
    def is_fixed(self) -> bool:
        """Whether it names its minutes and hours; as in Debian's cron, a field that begins with a star does not."""
        return not (self.fields[0].startswith("*") or self.fields[1].startswith("*"))

    def after(self, label: datetime) -> datetime | None:
        """The first label after this one; None when there is none within fifty years."""
        return self._search.seek(label.replace(second=0, microsecond=0), 1)

    def before(self, label: datetime) -> datetime | None:
        """The last label before this one; None when there is none within fifty years."""
        minute = label.replace(second=0, microsecond=0)
        return self._search.seek(minute if minute == label else minute + _MINUTE, -1)


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> CronExpression:
    """The expression of this text; cached, because parsing takes 30 µs or more and many schedules share a text."""
    return CronExpression(text)


def split_fields(text: str) -> tuple[str, ...]:
    """The five fields of an expression or a nickname, not checked."""
    if not isinstance(text, str):
        raise InvalidSchedule(f'a cron expression is a text such as "0 2 * * *" or "@daily", got {text!r:.80}')
    fields = tuple(NICKNAMES.get(text.strip().lower(), text).split())
    if len(fields) != len(FIELDS):
        raise InvalidSchedule(
            f"cron expression {text!r:.300} has {len(fields)} fields; "
            "it needs five: minute hour day-of-month month day-of-week"
        )
    return fields


class _Search(CronSim):
    """cronsim on labels, with `15W` added; a subclass, because cronsim has no other place to add a kind of day."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        days = fields[2].upper().split(",")
        self._nearest = frozenset(int(day[:-1]) for day in days if _NEAREST_WEEKDAY.fullmatch(day))
        others = ",".join(day for day in days if not _NEAREST_WEEKDAY.fullmatch(day))
        super().__init__(" ".join((*fields[:2], "*" if self._nearest else others, *fields[3:])), _ERA)
        if self._nearest:
            self.days = cast("set[int]", Field.DAY.parse(others)) if others else set()
            self.day_and = fields[2].startswith("*") or fields[4].startswith("*")

    def match_dom(self, d: date) -> bool:
        return super().match_dom(d) or any(d == nearest_weekday(d, day) for day in self._nearest)

    def seek(self, label: datetime, direction: int) -> datetime | None:
        search = copy(self)  # 2 µs; parsing again costs 20
        search.dt, search.tick_direction = label, direction
        try:
            return next(search, None)
        except OverflowError:  # the calendar ends in the year 9999
            return None


def nearest_weekday(month: date, day: int) -> date | None:
    """The weekday, Monday to Friday, nearest to this day in the same month; None if the month is too short."""
    last = calendar.monthrange(month.year, month.month)[1]
    if day > last:
        return None
    found = month.replace(day=day)
    if found.weekday() == 5:
        return found + timedelta(days=2 if day == 1 else -1)
    if found.weekday() == 6:
        return found + timedelta(days=-2 if day == last else 1)
    return found


def _checked_search(text: str, fields: tuple[str, ...]) -> _Search:
    if len(text) > _MAX_CHARACTERS:
        raise InvalidSchedule(f"cron expression {text!r:.60} is longer than {_MAX_CHARACTERS} characters")
    search = _parse_fields(fields)
    if search is None or search.seek(_ERA, 1) is None:
        raise InvalidSchedule(_describe_error(text, fields))
    return search


def _parse_fields(fields: tuple[str, ...]) -> _Search | None:
    for field, largest in zip(fields, _LARGEST_STEP, strict=True):
        if not field.isascii() or any(int(step) > largest for step in re.findall(r"/(\d+)", field)):
            return None
    try:
        return _Search(fields)
    except CronSimError:
        return None


def _describe_error(text: str, fields: tuple[str, ...]) -> str:
    """Names the field that cannot be read; if all can be read, their days never occur together."""
    for position, field in enumerate(fields):
        alone = ["*"] * len(fields)
        alone[position] = field
        if _parse_fields(tuple(alone)) is None:
            return (
                f"cron expression {text!r} has the {FIELDS[position]} field {field!r}, which cannot be read; "
                f"it takes {_ALLOWED[position]}, and lists (1,2), ranges (1-5), steps (*/2) or *"
            )
    return (
        f"cron expression {text!r} never matches: day-of-month {fields[2]!r} and day-of-week {fields[4]!r} "
        f"do not occur together in month {fields[3]!r}"
    )


class Frequency(Struct, frozen=True):
    """The five fields of an expression, for builders; its methods return a copy with some fields changed.

    A minute or hour that no word has set is None. `is_default_time` says that a word without a time set midnight.
    """

    minute: str | None = None
    hour: str | None = None
    day: str = "*"
    month: str = "*"
    weekday: str = "*"
    is_default_time: bool = False

    def __str__(self) -> str:
        """If only days are set, midnight of these days: every minute of a day is never what they mean."""
        days = f"{self.day} {self.month} {self.weekday}"
        if self.minute is None and self.hour is None and days != "* * *":
            return f"0 0 {days}"
        return f"{self.minute or '*'} {self.hour or '*'} {days}"

    def set(self, **fields: str) -> "Frequency":
        """With these fields; midnight that is only a default gives way to the minutes of a later word."""
        minutes_only = "minute" in fields and "hour" not in fields
        hour = None if minutes_only and self.is_default_time else self.hour
        is_default = self.is_default_time and "minute" not in fields and "hour" not in fields
        return structs.replace(self, **{"hour": hour, "is_default_time": is_default, **fields})

    def at(self, moment: str | time) -> "Frequency":
        hour, minute = parse_time(moment)
        return self.set(minute=str(minute), hour=str(hour))

    def at_midnight(self) -> "Frequency":
        """At midnight, unless an earlier word has set the minute or the hour."""
        if self.minute is not None or self.hour is not None:
            return self
        return structs.replace(self, minute="0", hour="0", is_default_time=True)


def parse_frequency(expression: str) -> Frequency:
    """The fields of an expression or a nickname; an error names the wrong field."""
    minute, hour, day, month, weekday = split_fields(expression)
    parse_expression(expression)
    return Frequency(minute, hour, day, month, weekday)


def parse_time(text: str | time) -> tuple[int, int]:
    """Hour and minute from "02:00", "4:08 pm", "noon", "midnight" or a `time`."""
    if isinstance(text, time):
        return text.hour, text.minute
    if not isinstance(text, str):
        raise InvalidSchedule(f"a time of day must be a text or a datetime.time, got {text!r}")
    if text.strip().lower() in _TIME_NAMES:
        return _TIME_NAMES[text.strip().lower()]
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


def zone_of(moment: str | time | None, timezone: str | None) -> str | None:
    """The time zone that a word names: its `timezone`, or the zone of its `time`."""
    zone = moment.tzinfo if isinstance(moment, time) else None
    if zone is None:
        return timezone
    name = "UTC" if zone is UTC else zone.key if isinstance(zone, ZoneInfo) else None
    if name is None:
        raise InvalidSchedule(
            f'{moment!r} has a time zone without a name; write the time without it, and timezone="Europe/Madrid"'
        )
    if timezone not in (None, name):
        raise InvalidSchedule(
            f"{moment!r} is in the time zone {name!r}, but timezone is {timezone!r}; name one of them"
        )
    return name


def number_field(value: int, low: int, high: int, what: str) -> str:
    if type(value) is not int or not low <= value <= high:
        raise InvalidSchedule(f"{what} must be a whole number from {low} to {high}, got {value!r}")
    return str(value)


def list_field(values: int | Iterable[int], low: int, high: int, what: str) -> str:
    chosen = [values] if isinstance(values, int) else list(values)
    if not chosen:
        raise InvalidSchedule(f"{what} needs at least one value")
    return ",".join(number_field(value, low, high, what) for value in chosen)


def step_field(value: int, high: int, what: str) -> str:
    return "*" if value == 1 else f"*/{number_field(value, 1, high, what)}"


def range_field(first: int, last: int, high: int, what: str) -> str:
    """A range; if the last value is below the first, the range wraps around, as in 22 to 6 o'clock."""
    begin, end = number_field(first, 0, high, what), number_field(last, 0, high, what)
    return f"{begin}-{end}" if first <= last else f"{begin}-{high},0-{end}"


def find_zone(name: str) -> tzinfo:
    """The time zone with this name in the IANA database; the error for an unknown name suggests similar names."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, TypeError, OSError):  # a folder of the database raises OSError
        if name == "UTC":  # works without a time zone database too
            return UTC
        raise InvalidSchedule(f"{name!r} is not a time zone; {_suggestion(str(name))}") from None


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # slow to import, and rarely needed

    known = available_timezones()
    if not known:
        return "there is no time zone database here: install tzdata, from the system or from PyPI"
    similar = get_close_matches(name, known, 3)
    return f"did you mean {' or '.join(map(repr, similar))}?" if similar else 'write it as "Europe/Madrid" or "UTC"'
