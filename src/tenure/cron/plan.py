"""Plan: what one minute asks for, in the order of dependencies, and why something is left out."""

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from tenure.cron.dependencies import Fate, hold
from tenure.cron.schedule import Schedule
from tenure.errors import InvalidSchedule

Action = Literal["enqueue", "run", "skip"]


class Step(Struct, frozen=True):
    """One schedule in one tick: put on its queue, run inline, or left out because of `why`."""

    schedule: Schedule
    tick: int
    action: Action
    why: str | None = None


def plan(schedules: Sequence[Schedule], moment: int, environment: str, only: Collection[str] = ()) -> list[Step]:
    """The schedules that are due in the minute of this moment, or those named, whenever they are due.

    `schedules` are in the order of their dependencies.
    """
    if unknown := set(only) - {schedule.name for schedule in schedules}:
        known = ", ".join(schedule.name for schedule in schedules) or "none"
        raise InvalidSchedule(f"no schedule is called {min(unknown)!r}; there are: {known}")
    minute = moment - moment % 60_000_000
    steps: list[Step] = []
    fates: dict[str, Fate] = {}
    for schedule in schedules:
        tick = schedule.tick_of(moment) if not only else minute if schedule.name in only else None
        if tick is None:
            continue
        why = reason_to_skip(schedule, environment) or hold(schedule, fates).why
        fates[schedule.name] = Fate.SKIPPED if why else Fate.SUCCEEDED
        steps.append(Step(schedule, tick, "skip" if why else "run" if schedule.inline else "enqueue", why))
    return steps


def reason_to_skip(schedule: Schedule, environment: str) -> str | None:
    """Why a schedule does not run here, however due it is."""
    if not schedule.job.enabled:
        return "disabled"
    places = schedule.job.environments
    if places and environment not in places:
        return f"only in {', '.join(places)}; this is {environment}"
    return None
