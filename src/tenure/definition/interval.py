"""Intervals of schedules, written as `@every 10s`: due at each multiple of a length since 1970-01-01T00:00Z.

So all processes agree on the ticks, they never drift, and clock changes do not matter. A length that divides a day, an
hour or a minute evenly begins anew with each day, hour or minute of UTC.
"""

from tenure.definition.duration import Duration, to_seconds
from tenure.errors import InvalidJob, InvalidSchedule

_PREFIX = "@every "
_UNITS = (("d", "day", 86_400), ("h", "hour", 3600), ("m", "minute", 60), ("s", "second", 1))
DAY = 86_400


def is_interval(expression: object) -> bool:
    """Whether this is an interval and not a cron expression."""
    return isinstance(expression, str) and expression.strip().lower().startswith(_PREFIX)


def parse_interval(expression: str) -> int:
    """The seconds of `@every 10s`."""
    return interval_seconds(expression.strip()[len(_PREFIX) :])


def interval_seconds(length: Duration) -> int:
    """Whole seconds, at least one."""
    try:
        seconds = to_seconds(length, "the interval of a schedule")
    except InvalidJob as error:
        raise InvalidSchedule(str(error)) from error
    if seconds < 1 or seconds != int(seconds):
        raise InvalidSchedule(f'the interval of a schedule is at least "1s", in whole seconds, got {length!r:.80}')
    return int(seconds)


def format_interval(seconds: int) -> str:
    """As an expression, in the largest unit that needs no fraction: `@every 90m`."""
    unit, _, size = _unit_of(seconds)
    return f"{_PREFIX}{seconds // size}{unit}"


def describe_interval(seconds: int) -> str:
    """In words: "Every 10 seconds"."""
    _, word, size = _unit_of(seconds)
    count = seconds // size
    return f"Every {word}" if count == 1 else f"Every {count} {word}s"


def _unit_of(seconds: int) -> tuple[str, str, int]:
    return next(unit for unit in _UNITS if seconds % unit[2] == 0)
