"""Preview: the ticks to come as people read them, and what the clock does to them."""

from datetime import datetime, timedelta

from msgspec import Struct

from tenure.clock import to_microseconds
from tenure.cron.schedule import Schedule, to_moment
from tenure.cron.ticks import both, jump

_STEP = timedelta(days=7)  # no zone has had its clock changed and back within a week
_HORIZON = timedelta(days=366 * 2)
_MINUTE = timedelta(minutes=1)


class Occasion(Struct, frozen=True):
    """A tick, or with `is_change` a change of the clock, by the clock of the schedule's zone."""

    local: datetime
    note: str | None = None
    is_change: bool = False


def upcoming(schedule: Schedule, after: int, count: int) -> list[Occasion]:
    """The next ticks."""
    found: list[Occasion] = []
    tick = schedule.after(after)
    while tick is not None and len(found) < count:
        found.append(_occasion(schedule, tick))
        tick = schedule.after(tick)
    return found


def around_change(schedule: Schedule, after: int, count: int) -> list[Occasion]:
    """The last ticks before and the first after the next change of the clock; empty where the clock never changes."""
    change = next_change(schedule, after)
    if change is None:
        return []
    instant = to_microseconds(change)
    earlier: list[Occasion] = []
    tick = schedule.before(instant)
    while tick is not None and len(earlier) < count:
        earlier.append(_occasion(schedule, tick))
        tick = schedule.before(tick)
    local = change.astimezone(schedule.ticks.zone)
    shown = (change - _MINUTE).astimezone(schedule.ticks.zone) + _MINUTE
    way = "forward" if shown.replace(tzinfo=None) < local.replace(tzinfo=None) else "back"
    marked = Occasion(local, f"the clock goes {way} from {shown:%H:%M} to {local:%H:%M}", is_change=True)
    return [*reversed(earlier), marked, *upcoming(schedule, instant - 1, count)]


def next_change(schedule: Schedule, after: int) -> datetime | None:
    """When the offset of the zone changes next, within two years."""
    zone, begin = schedule.ticks.zone, to_moment(after)
    last = begin + _HORIZON
    while begin < last:
        end = begin + _STEP
        if begin.astimezone(zone).utcoffset() != end.astimezone(zone).utcoffset():
            return jump(begin, end, zone)
        begin = end
    return None


def _occasion(schedule: Schedule, tick: int) -> Occasion:
    zone = schedule.ticks.zone
    local, due = to_moment(tick).astimezone(zone), to_moment(schedule.due_at(tick)).astimezone(zone)
    notes = [_note(schedule, local), f"with its jitter at {due:%H:%M:%S}" if due != local else None]
    return Occasion(local, "; ".join(note for note in notes if note) or None)


def _note(schedule: Schedule, local: datetime) -> str | None:
    label = local.replace(tzinfo=None)
    first, second = both(label, schedule.ticks.zone)
    if first < second:
        return f"the {'second' if local.fold else 'first'} of two {label:%H:%M}"
    if schedule.ticks.expression.after(label - _MINUTE) != label:
        missed = schedule.ticks.expression.before(label)
        return f"instead of {missed:%H:%M}, which is missing that day" if missed else None
    return None
