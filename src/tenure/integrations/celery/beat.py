"""Celery's `beat_schedule` as schedules of Tenure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from tenure.app.tenure import Tenure
from tenure.cron.builder import ScheduleBuilder
from tenure.errors import NotSupported

if TYPE_CHECKING:
    from tenure.integrations.celery.task import CeleryTask

Field = str | int | Iterable[int]
_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


@dataclass(frozen=True, slots=True)
class crontab:  # noqa: N801 - Celery's name
    """The times of a schedule, with the names and defaults of Celery's `crontab`."""

    minute: Field = "*"
    hour: Field = "*"
    day_of_week: Field = "*"
    day_of_month: Field = "*"
    month_of_year: Field = "*"


class _RequiredEntry(TypedDict):
    task: str
    schedule: Any


class BeatEntry(_RequiredEntry, total=False):
    """An entry of `beat_schedule`; `schedule` is a crontab, a number of seconds or a timedelta."""

    args: Any
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    relative: bool


def add_entry(app: Tenure, name: str, task: "CeleryTask[..., Any]", entry: BeatEntry, timezone: str | None) -> None:
    """Schedule one entry under its name."""
    if unknown := entry.keys() - BeatEntry.__annotations__.keys():
        raise NotSupported(f"the entry {name!r} of beat_schedule has an unknown member {min(unknown)!r}")
    if entry.get("relative"):
        raise NotSupported(f"the entry {name!r} has relative=True, and all schedules here are aligned to the clock")
    job = task.described(tuple(entry.get("args") or ()), dict(entry.get("kwargs") or {}), entry.get("options") or {})
    expression = cron_expression(name, entry["schedule"])
    schedule: ScheduleBuilder = app.schedule(job).named(name)
    if expression is None:
        schedule.every(entry["schedule"])
    else:
        schedule.cron(expression, timezone)


def cron_expression(name: str, schedule: Any) -> str | None:
    """The five fields of a crontab of this module, or of Celery's; None for an interval."""
    if isinstance(schedule, (int, float, timedelta)) and not isinstance(schedule, bool):
        return None
    fields: list[Any] = [getattr(schedule, f"_orig_{field}", getattr(schedule, field, None)) for field in _FIELDS]
    if None in fields:
        raise NotSupported(
            f"the entry {name!r} of beat_schedule has the schedule {schedule!r:.80}; use a crontab, seconds or a "
            "timedelta, or write app.schedule(...)"
        )
    texts = [_text(field) for field in fields]
    if not (texts[2].startswith("*") or texts[4].startswith("*")):
        raise NotSupported(
            f"the entry {name!r} restricts the day of the month and the day of the week: Celery runs it when both "
            "match, and a cron expression when one matches; write app.schedule(...), and check the other day in the job"
        )
    return " ".join(texts)


def _text(field: Field) -> str:
    return str(field) if isinstance(field, (str, int)) else ",".join(str(each) for each in sorted(field))
