"""Dependencies: the order in which schedules of one tick go, and whether a dependent may start."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Literal

from msgspec import Struct

from tenure.cron.schedule import Schedule
from tenure.errors import InvalidSchedule


class Fate(StrEnum):
    """What became of a schedule in one tick."""

    NOT_DUE = "not due"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class Hold(Struct, frozen=True):
    """Whether a dependent may start, and if not, because of what."""

    verdict: Literal["ready", "wait", "skip"]
    why: str | None = None


def in_order(schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Each after all that it depends on, otherwise as they were declared; unknown names and cycles are refused."""
    places = {schedule.name: place for place, schedule in enumerate(schedules)}
    dependents: dict[str, list[int]] = {name: [] for name in places}
    missing = []
    for place, schedule in enumerate(schedules):
        needed = set(schedule.job.depends_on)
        for name in sorted(needed - places.keys()):
            known = ", ".join(sorted(places.keys() - {schedule.name})) or "no others"
            raise InvalidSchedule(
                f"schedule {schedule.name!r} depends on {name!r}, which is unknown; there are: {known}"
            )
        for name in needed:
            dependents[name].append(place)
        missing.append(len(needed))
    ready = [place for place, count in enumerate(missing) if not count]
    heapify(ready)
    ordered: list[Schedule] = []
    while ready:
        ordered.append(schedules[heappop(ready)])
        for place in dependents[ordered[-1].name]:
            missing[place] -= 1
            if not missing[place]:
                heappush(ready, place)
    if len(ordered) < len(schedules):
        raise InvalidSchedule(f"schedules depend on each other in a circle: {_circle(schedules, missing)}")
    return tuple(ordered)


def hold(schedule: Schedule, fates: Mapping[str, Fate]) -> Hold:
    """A dependent waits until every dependency of its tick has succeeded; one that was not due holds nothing back."""
    found = {name: fates.get(name, Fate.NOT_DUE) for name in schedule.job.depends_on}
    for name, fate in found.items():
        if fate in (Fate.FAILED, Fate.SKIPPED):
            word = "failed" if fate is Fate.FAILED else "was skipped"
            return Hold("skip", f"depends on {name!r}, which {word}")
    waiting = [name for name, fate in found.items() if fate is Fate.PENDING]
    return Hold("wait", f"waits for {', '.join(map(repr, waiting))}") if waiting else Hold("ready")


def _circle(schedules: Sequence[Schedule], missing: Sequence[int]) -> str:
    """One of the circles, as a path that ends where it began."""
    stuck = {schedule.name: schedule for schedule, count in zip(schedules, missing, strict=True) if count}
    path = [next(iter(stuck))]
    while True:
        name = next(each for each in stuck[path[-1]].job.depends_on if each in stuck)
        if name in path:
            return " → ".join([*path[path.index(name) :], name])
        path.append(name)
