"""Misfire: which of the ticks that nobody was there for are made up for."""

from typing import Literal, Protocol, get_args

from msgspec import Struct

from tenure.clock import MICROSECOND
from tenure.errors import InvalidSchedule

MisfirePolicy = Literal["skip", "latest", "all"]


class Misfire(Struct, frozen=True):
    """`skip` runs what is at most `grace` late, `latest` the last missed tick, `all` the last `most` within `age`."""

    policy: MisfirePolicy = "skip"
    grace: float = 60.0
    most: int = 100
    age: float = 86_400.0

    def __post_init__(self) -> None:
        if self.policy not in get_args(MisfirePolicy):
            known = ", ".join(get_args(MisfirePolicy))
            raise InvalidSchedule(f"misfire must be one of {known}, got {self.policy!r}")
        if type(self.most) is not int or self.most < 1:
            raise InvalidSchedule(f"misfire needs most to be a whole number of at least 1, got {self.most!r}")


class Ticking(Protocol):
    """What a decision needs to know of a schedule; moments are UTC microseconds."""

    @property
    def misfire(self) -> Misfire: ...

    def after(self, moment: int) -> int | None: ...

    def before(self, moment: int) -> int | None: ...

    def due_at(self, tick: int) -> int: ...


class CatchUp(Struct, frozen=True):
    """`run` are ticks to run, the oldest first; `dropped` the first and last of those given up; `until` the newest."""

    run: tuple[int, ...]
    dropped: tuple[int, int] | None
    until: int


def catch_up(schedule: Ticking, last: int, now: int) -> CatchUp:
    """What to do about the ticks after `last` that are due; the cost follows what is run, not what was missed."""
    until = _newest(schedule, now)
    if until is None or until <= last:
        return CatchUp((), None, last)
    most, cutoff = _bounds(schedule.misfire, now)
    run: list[int] = []
    found: int | None = until
    while found is not None and found > last and len(run) < most and schedule.due_at(found) >= cutoff:
        run.append(found)
        found = schedule.before(found)
    run.reverse()
    if found is None or found <= last:
        return CatchUp(tuple(run), None, until)
    return CatchUp(tuple(run), (schedule.after(last) or found, found), until)


def _newest(schedule: Ticking, now: int) -> int | None:
    """The last tick that is due; with jitter, the newest may still have to wait."""
    tick = schedule.before(now + 1)
    return schedule.before(tick) if tick is not None and schedule.due_at(tick) > now else tick


def _bounds(misfire: Misfire, now: int) -> tuple[float, float]:
    """How many ticks may run, and when the oldest of them may have been due."""
    if misfire.policy == "latest":
        return 1, float("-inf")
    if misfire.policy == "all":
        return misfire.most, now - misfire.age * MICROSECOND
    return float("inf"), now - misfire.grace * MICROSECOND
