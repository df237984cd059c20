"""Ticks: the instants at which an expression is due in a time zone, also where its clock jumps.

A label that exists once is one instant. What happens to labels that a jump leaves out, or shows twice, is a policy;
`docs/explanation/schedules-and-dst.md` tells why.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

from msgspec import Struct

from tenure.definition.expression import Expression
from tenure.errors import InvalidSchedule

Missing = Literal["auto", "after", "skip"]
Repeated = Literal["auto", "first", "second", "both"]
_MISSING: tuple[Missing, ...] = ("auto", "after", "skip")
_REPEATED: tuple[Repeated, ...] = ("auto", "first", "second", "both")
_INSTANT = timedelta(microseconds=1)


class Daylight(Struct, frozen=True):
    """What becomes of local times that a change of the clock leaves out (`missing`) or shows twice (`repeated`).

    `auto` follows Debian's cron: an expression that names its minutes and hours runs right after a missing time and
    once in a repeated one; one with a star in either follows real time.
    """

    missing: Missing = "auto"
    repeated: Repeated = "auto"

    def __post_init__(self) -> None:
        for name, known in (("missing", _MISSING), ("repeated", _REPEATED)):
            if getattr(self, name) not in known:
                raise InvalidSchedule(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")

    def resolve(self, expression: Expression) -> tuple[Missing, Repeated]:
        """The policy for this expression, with nothing left to `auto`."""
        natural: tuple[Missing, Repeated] = ("after", "first") if expression.is_fixed else ("skip", "both")
        return (
            natural[0] if self.missing == "auto" else self.missing,
            natural[1] if self.repeated == "auto" else self.repeated,
        )


class Ticks:
    """The instants, in UTC, at which an expression is due in a zone."""

    def __init__(self, expression: Expression, zone: tzinfo, daylight: Daylight | None = None) -> None:
        self.expression = expression
        self.zone = zone
        self._missing, self._repeated = (daylight or Daylight()).resolve(expression)

    def after(self, moment: datetime) -> datetime | None:
        """The first tick later than this moment."""
        here = moment.astimezone(self.zone)
        found = self._first_after(here.replace(tzinfo=None), moment)
        if self._repeated != "first" and not here.fold and (change := overlap_end(here, self.zone)):
            # The labels from here back to the start of the repeated hour will be shown once more.
            start = change.astimezone(self.zone).replace(tzinfo=None)
            again = self._first_after(start - _INSTANT, moment)
            found = min(found, again) if found and again else found or again
        return found

    def before(self, moment: datetime) -> datetime | None:
        """The last tick earlier than this moment."""
        here = moment.astimezone(self.zone)
        found = self._last_before(here.replace(tzinfo=None), moment)
        if self._repeated != "second" and here.fold and (change := overlap_end(here, self.zone)):
            # The labels from here on to the end of the repeated hour were shown once already.
            end = (change - _INSTANT).astimezone(self.zone).replace(tzinfo=None)
            earlier = self._last_before(end + _INSTANT, moment)
            found = max(found, earlier) if found and earlier else found or earlier
        return found

    def at(self, moment: datetime) -> bool:
        """Whether this very moment is a tick."""
        return self.before(moment + _INSTANT) == moment

    def between(self, begin: datetime, end: datetime) -> Iterator[datetime]:
        """The ticks later than `begin` and not later than `end`."""
        tick = self.after(begin)
        while tick is not None and tick <= end:
            yield tick
            tick = self.after(tick)

    def _first_after(self, label: datetime, moment: datetime) -> datetime | None:
        found = self.expression.after(label)
        while found is not None:
            later = [each for each in self._instants(found) if each > moment]
            if later:
                return later[0]
            found = self.expression.after(found)
        return None

    def _last_before(self, label: datetime, moment: datetime) -> datetime | None:
        found = self.expression.before(label)
        while found is not None:
            earlier = [each for each in self._instants(found) if each < moment]
            if earlier:
                return earlier[-1]
            found = self.expression.before(found)
        return None

    def _instants(self, label: datetime) -> list[datetime]:
        first, second = both(label, self.zone)
        if first == second:
            return [first]
        if first > second:  # no clock shows this label
            return [jump(second, first, self.zone)] if self._missing == "after" else []
        return {"first": [first], "second": [second]}.get(self._repeated, [first, second])


def both(label: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """What a label means by the clock before a change and by the clock after it; they differ only at changes."""
    local = label.replace(tzinfo=zone)
    return local.replace(fold=0).astimezone(UTC), local.replace(fold=1).astimezone(UTC)


def overlap_end(here: datetime, zone: tzinfo) -> datetime | None:
    """When the clock goes back, if it shows this local time twice."""
    first, second = both(here.replace(tzinfo=None), zone)
    return jump(first, second, zone) if first < second else None


def jump(begin: datetime, end: datetime, zone: tzinfo) -> datetime:
    """The first instant with another offset than `begin` has; `end` must have it already."""
    before = begin.astimezone(zone).utcoffset()
    while end - begin > timedelta(seconds=1):
        middle = begin + (end - begin) / 2
        begin, end = (middle, end) if middle.astimezone(zone).utcoffset() == before else (begin, middle)
    return end.replace(microsecond=0)
