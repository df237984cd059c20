"""Expression: the five fields of a cron expression, checked when it is written and searched label by label.

A label is what a clock on the wall shows: a datetime without a zone. `tenure.cron.ticks` turns labels into instants.
"""

import calendar
import re
from copy import copy
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import cast

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field

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
_TAKES = (
    "0 to 59",
    "0 to 23",
    "1 to 31, L for the last day, LW for the last weekday, 15W for the weekday nearest to the 15th",
    "1 to 12 or JAN to DEC",
    "0 to 7 or SUN to SAT (0 and 7 are Sunday), 5L for the last Friday, 2#1 for the first Tuesday",
)
_LARGEST_STEP = (59, 23, 31, 12, 7)
_LONGEST = 256
_MINUTE = timedelta(minutes=1)
_NEAREST = re.compile(r"([1-9]|[12]\d|3[01])W")
_ERA = datetime(2000, 1, 1)  # a label; dates and weekdays repeat every 28 years until 2100


class Expression:
    """Five fields that can match; text that cannot is refused with the field at fault."""

    def __init__(self, text: str) -> None:
        self.fields = split(text)
        self._search = _searched(text, self.fields)

    def __str__(self) -> str:
        return " ".join(self.fields)

    @property
    def is_fixed(self) -> bool:
        """Whether it names its minutes and hours; Debian's cron asks for a leading star, and so do we."""
        return not (self.fields[0].startswith("*") or self.fields[1].startswith("*"))

    def after(self, label: datetime) -> datetime | None:
        """The first label after this one; None when there is none within fifty years."""
        return self._search.seek(label.replace(second=0, microsecond=0), 1)

    def before(self, label: datetime) -> datetime | None:
        """The last label before this one; None when there is none within fifty years."""
        minute = label.replace(second=0, microsecond=0)
        return self._search.seek(minute if minute == label else minute + _MINUTE, -1)


@lru_cache(maxsize=4096)
def read(text: str) -> Expression:
    """The expression of this text; remembered, as reading takes 30 µs or more and many schedules share one."""
    return Expression(text)


def split(text: str) -> tuple[str, ...]:
    """The five fields of an expression or nickname, not yet checked."""
    fields = tuple(NICKNAMES.get(text.strip().lower(), text).split())
    if len(fields) != len(FIELDS):
        raise InvalidSchedule(
            f"cron expression {text!r:.300} has {len(fields)} fields; "
            "it needs five: minute hour day-of-month month day-of-week"
        )
    return fields


class _Search(CronSim):
    """cronsim on labels, with `15W` added; a subclass, as cronsim has no other place to add a kind of day."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        days = fields[2].upper().split(",")
        self._nearest = frozenset(int(day[:-1]) for day in days if _NEAREST.fullmatch(day))
        others = ",".join(day for day in days if not _NEAREST.fullmatch(day))
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
    """The Monday to Friday nearest to this day without leaving its month; None where the month is too short."""
    last = calendar.monthrange(month.year, month.month)[1]
    if day > last:
        return None
    found = month.replace(day=day)
    if found.weekday() == 5:
        return found + timedelta(days=2 if day == 1 else -1)
    if found.weekday() == 6:
        return found + timedelta(days=-2 if day == last else 1)
    return found


def _searched(text: str, fields: tuple[str, ...]) -> _Search:
    if len(text) > _LONGEST:
        raise InvalidSchedule(f"cron expression {text!r:.60} is longer than {_LONGEST} characters")
    search = _parsed(fields)
    if search is None or search.seek(_ERA, 1) is None:
        raise InvalidSchedule(_blame(text, fields))
    return search


def _parsed(fields: tuple[str, ...]) -> _Search | None:
    for field, largest in zip(fields, _LARGEST_STEP, strict=True):
        if not field.isascii() or any(int(step) > largest for step in re.findall(r"/(\d+)", field)):
            return None
    try:
        return _Search(fields)
    except CronSimError:
        return None


def _blame(text: str, fields: tuple[str, ...]) -> str:
    """Which field cannot be read; when all of them can, their days never come together."""
    for position, field in enumerate(fields):
        alone = ["*"] * len(fields)
        alone[position] = field
        if _parsed(tuple(alone)) is None:
            return (
                f"cron expression {text!r} has the {FIELDS[position]} field {field!r}, which cannot be read; "
                f"it takes {_TAKES[position]}, and lists (1,2), ranges (1-5), steps (*/2) or *"
            )
    return (
        f"cron expression {text!r} never comes: no day-of-month {fields[2]!r} and day-of-week {fields[4]!r} "
        f"meet in month {fields[3]!r}"
    )
