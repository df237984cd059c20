"""Ticks compared, minute by minute, with a walk that knows nothing of cronsim: the tricky days of many zones.

A seeded sample runs with the other tests; `make walk` compares every zone with every expression.
"""

import calendar
import os
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from tenure.cron.schedule import Daylight, Ticks
from tenure.definition.cron_expression import CronExpression

MINUTE = timedelta(minutes=1)
YEARS = {  # the years whose changes of the clock are walked: 2026, or that of something rarer
    "Africa/Cairo": 2026, "Africa/Casablanca": 2026, "Africa/Juba": 2021, "America/Anchorage": 2026,
    "America/Asuncion": 2024, "America/Caracas": 2016, "America/Chicago": 2026, "America/Denver": 2026,
    "America/Halifax": 2026, "America/Havana": 2026, "America/Los_Angeles": 2026, "America/Miquelon": 2026,
    "America/New_York": 2026, "America/Nuuk": 2026, "America/Santiago": 2026, "America/Sao_Paulo": 2018,
    "America/Scoresbysund": 2024, "America/St_Johns": 2026, "Antarctica/Macquarie": 2026, "Antarctica/Troll": 2026,
    "Asia/Amman": 2021, "Asia/Beirut": 2026, "Asia/Colombo": 2006, "Asia/Gaza": 2026, "Asia/Jerusalem": 2026,
    "Asia/Kathmandu": 1986, "Asia/Pyongyang": 2015, "Asia/Tehran": 2021, "Atlantic/Azores": 2026,
    "Australia/Adelaide": 2026, "Australia/Lord_Howe": 2026, "Australia/Sydney": 2026, "Europe/Berlin": 2026,
    "Europe/Chisinau": 2026, "Europe/Dublin": 2026, "Europe/Istanbul": 2016, "Europe/Lisbon": 2026,
    "Europe/London": 2026, "Europe/Madrid": 2026, "Europe/Moscow": 2014, "Europe/Volgograd": 2018,
    "Pacific/Apia": 2011, "Pacific/Auckland": 2026, "Pacific/Chatham": 2026, "Pacific/Kwajalein": 1993,
    "Pacific/Norfolk": 2026, "UTC": 2026,
}  # fmt: skip
EXPRESSIONS = (
    "* * * * *", "*/5 * * * *", "*/7 * * * *", "*/15 * * * *", "*/30 * * * *", "*/45 * * * *", "0 * * * *",
    "30 * * * *", "0,30 * * * *", "15,45 * * * *", "10-20 * * * *", "59 * * * *", "5/20 * * * *", "1-59/2 * * * *",
    "* 2 * * *", "* 1 * * *", "* 0 * * *", "*/10 1-3 * * *", "*/10 2 * * *", "0 */2 * * *", "30 */3 * * *",
    "15 */6 * * *", "0 0-23 * * *", "0 0-23/2 * * *", "0,15,30,45 0-5 * * *", "0 0 * * *", "30 0 * * *",
    "59 23 * * *", "0 1 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "0,30 2 * * *",
    "1-59/20 2 * * *", "0 3 * * *", "30 3 * * *", "0 12 * * *", "30 1,2,3 * * *", "0 22-23,0-6 * * *", "0 2 * * 0",
    "30 1 * * SUN", "30 2 * * 6,7", "30 2 * * 1-5", "0 9 * * MON-FRI", "30 0 * * 5L", "0 1 * * 0#1", "30 1 * * 7#2",
    "0 2 L * *", "30 2 LW * *", "30 1 15W * *", "0 0 1W * *", "0 0 1 * *", "30 2 1-7 * *", "30 1 1,15,29 * *",
    "0 2 29 * 0", "30 1 */2 * *", "0 0 30 12 *", "30 2 * MAR,OCT,NOV *", "30 0 * APR-SEP *", "0 2 */2 * */2",
)  # fmt: skip
POLICIES = tuple(Daylight(m, r) for m in ("after", "skip") for r in ("first", "second", "both"))
NAMES = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name} | {
    name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
}


@dataclass(frozen=True)
class Walk:
    """Every minute around one change of the clock: when each label was shown, and what was left out."""

    begin: datetime
    end: datetime
    shown: dict[datetime, list[datetime]]
    gaps: dict[datetime, list[datetime]]


def numbers(field: str, low: int, high: int) -> set[int]:
    found = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if first == "*" else NAMES.get(first) if first in NAMES else int(first)
        end = high if first == "*" or (step and not last) else (NAMES.get(last) or int(last)) if last else begin
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


@cache
def is_day(day: date, days: str, months: str, weekdays: str) -> bool:
    if day.month not in numbers(months, 1, 12):
        return False
    answers = is_day_of_month(day, days), is_day_of_week(day, weekdays)
    return all(answers) if days.startswith("*") or weekdays.startswith("*") else any(answers)


def is_day_of_month(day: date, field: str) -> bool:
    month = [day.replace(day=n) for n in range(1, calendar.monthrange(day.year, day.month)[1] + 1)]
    working = [each for each in month if each.weekday() < 5]
    if field == "L":
        return day == month[-1]
    if field == "LW":
        return day == working[-1]
    if field.endswith("W"):
        target = int(field[:-1])
        return target <= len(month) and day == min(working, key=lambda each: abs(each.day - target))
    return day.day in numbers(field, 1, 31)


def is_day_of_week(day: date, field: str) -> bool:
    weekday, _, nth = field.partition("#")
    if nth:
        return day.isoweekday() % 7 == int(weekday) % 7 and (day.day - 1) // 7 + 1 == int(nth)
    if field.endswith("L"):
        return day.isoweekday() % 7 == int(field[:-1]) % 7 and (day + timedelta(days=7)).month != day.month
    return bool({day.isoweekday(), day.isoweekday() % 7} & numbers(field, 0, 7))


def matches(expression: str, label: datetime) -> bool:
    minutes, hours, *days = expression.split()
    return label.minute in minute_set(minutes) and label.hour in hour_set(hours) and is_day(label.date(), *days)


@cache
def minute_set(field: str) -> set[int]:
    return numbers(field, 0, 59)


@cache
def hour_set(field: str) -> set[int]:
    return numbers(field, 0, 23)


@cache
def walks(zone: str) -> tuple[Walk, ...]:
    here = ZoneInfo(zone)
    hours = [datetime(YEARS[zone], 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(366 * 24)]
    offsets = [hour.astimezone(here).utcoffset() for hour in hours]
    changes = [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]]
    return tuple(walk(here, change) for change in changes or hours[2000:2001])


def walk(zone: ZoneInfo, change: datetime) -> Walk:
    begin, end = change - timedelta(hours=30), change + timedelta(hours=30)
    shown: dict[datetime, list[datetime]] = {}
    gaps: dict[datetime, list[datetime]] = {}
    instant, last = begin, begin.astimezone(zone).replace(tzinfo=None)
    while instant <= end:
        label = instant.astimezone(zone).replace(tzinfo=None)
        shown.setdefault(label, []).append(instant)
        missing = [last + n * MINUTE for n in range(1, (label - last) // MINUTE)]
        if missing:
            gaps[instant] = missing
        instant, last = instant + MINUTE, label
    return Walk(begin, end, shown, gaps)


def walked(expression: str, walk: Walk, daylight: Daylight) -> list[datetime]:
    starred = any(field.startswith("*") for field in expression.split()[:2])
    missing = ("skip" if starred else "after") if daylight.missing == "auto" else daylight.missing
    repeated = ("both" if starred else "first") if daylight.repeated == "auto" else daylight.repeated
    chosen = {"first": slice(1), "second": slice(-1, None), "both": slice(None)}[repeated]
    ticks = {each for label, found in walk.shown.items() if matches(expression, label) for each in found[chosen]}
    if missing == "after":
        ticks |= {end for end, labels in walk.gaps.items() if any(matches(expression, label) for label in labels)}
    return sorted(tick for tick in ticks if walk.begin < tick <= walk.end)


def backwards(ticks: Ticks, walk: Walk) -> list[datetime]:
    found, tick = [], ticks.before(walk.end + timedelta(seconds=1))
    while tick is not None and tick > walk.begin:
        found.append(tick)
        tick = ticks.before(tick)
    return found[::-1]


def pairs() -> list[tuple[str, str]]:
    every = [(zone, expression) for zone in YEARS for expression in EXPRESSIONS]
    return every if os.environ.get("WALK") == "all" else random.Random(7).sample(every, 250)


def test_the_walk_is_wide_enough():
    assert len(YEARS) >= 40
    assert len(EXPRESSIONS) >= 60


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "expression"), pairs())
def test_ticks_are_those_of_a_walk_through_every_minute(zone, expression):
    draw = random.Random(f"{zone} {expression}")
    for walk in walks(zone):
        for daylight in (Daylight(), draw.choice(POLICIES)):
            ticks = Ticks(CronExpression(expression), ZoneInfo(zone), daylight)
            expected = walked(expression, walk, daylight)
            assert list(ticks.between(walk.begin, walk.end)) == expected, daylight
            assert backwards(ticks, walk) == expected, daylight
            for moment in (walk.begin + timedelta(seconds=draw.randrange(216_000)) for _ in range(20)):
                tick = ticks.after(moment)
                later = [each for each in expected if each > moment]
                assert later[:1] == ([tick] if tick and tick <= walk.end else []), (daylight, moment)
