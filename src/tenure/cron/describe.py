"""A schedule described for people: in sentences, and as a list of its next ticks with the clock changes among them."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from tenure.clock import to_microseconds
from tenure.cron.decision import reason_to_skip
from tenure.cron.schedule import Schedule, Ticks, exact_datetime, instants_of, offset_change
from tenure.definition.interval import DAY, describe_interval, is_interval, parse_interval

_COMPARED_TICKS = 100
_CHANGE_SEARCH_STEP = timedelta(days=7)  # no zone has had its clock changed and changed back within a week
_CHANGE_SEARCH_LIMIT = timedelta(days=366 * 2)
_MINUTE = timedelta(minutes=1)
_MISSING = {
    "after": "runs right after the clock has jumped",
    "skip": "a time that a clock change skips is skipped",
}
_REPEATED = {
    "first": "runs the first time only",
    "second": "runs the second time only",
    "both": "a time that the clock shows twice runs twice",
}
_OVERLAP = {
    "allow": "a tick starts even while earlier ones have not ended",
    "skip": "a tick is skipped while an earlier one has not ended",
    "queue_one": "one tick waits while an earlier one has not ended, others are skipped",
}


def describe(expression: str) -> str:
    """The expression in words, or as it is if cronsim cannot describe it."""
    if is_interval(expression):
        return describe_interval(parse_interval(expression))
    from cronsim.explain import explain  # imported on use: few processes need it

    try:
        return explain(expression)
    except ValueError:
        return f"When {expression} is due"


def explain(schedule: Schedule, environment: str) -> dict[str, str]:
    """What a schedule does, topic by topic; topics that do not apply are left out."""
    missing, repeated = _clock_changes(schedule)
    topics: dict[str, str | None] = {
        "not here": reason_to_skip(schedule, environment),
        "runs": "in the scheduler, for one attempt" if schedule.inline else f"on queue {schedule.job.queue!r}",
        "when": describe(schedule.expression),
        "expression": schedule.expression,
        "zone": schedule.timezone,
        "starts": str(schedule.starts_at) if schedule.starts_at else None,
        "ends": str(schedule.ends_at) if schedule.ends_at else None,
        "counts from": _interval_start(schedule.interval),
        "missing times": missing,
        "repeated times": repeated,
        "jitter": f"each tick runs up to {schedule.jitter:g} s later" if schedule.jitter else None,
        "missed ticks": _missed_ticks(schedule),
        "overlap": _OVERLAP[schedule.overlap],
        "depends on": _dependencies(schedule),
    }
    return {topic: sentence for topic, sentence in topics.items() if sentence is not None}


def _clock_changes(schedule: Schedule) -> tuple[str | None, str | None]:
    """What happens to local times that are missing, and to those that occur twice; an interval has no local times."""
    if not isinstance(schedule.ticks, Ticks):
        return None, None
    missing, repeated = schedule.daylight.resolve(schedule.ticks.expression)
    wildcard = "" if schedule.ticks.expression.is_fixed else "follows real time: "
    return (
        (wildcard if missing == "skip" else "") + _MISSING[missing],
        (wildcard if repeated == "both" else "") + _REPEATED[repeated],
    )


def _interval_start(interval: int | None) -> str | None:
    if interval is None:
        return None
    start = "1970-01-01 00:00" if DAY % interval else "each midnight"
    return f"{start} in UTC, so clock changes do not matter"


def _missed_ticks(schedule: Schedule) -> str:
    misfire = schedule.misfire
    if misfire.policy == "latest":
        return "runs the last one, however late"
    if misfire.policy == "all":
        return f"runs the last {misfire.limit}, none older than {misfire.age:g} s"
    if schedule.interval is not None:
        return f"runs the last one if it is up to {misfire.grace:g} s late, and drops the rest"
    return f"runs those up to {misfire.grace:g} s late, and drops the rest"


def _dependencies(schedule: Schedule) -> str | None:
    names = ", ".join(map(repr, schedule.job.depends_on))
    return f"{names}: runs after they succeeded in the same tick" if names else None


def never_together(schedule: Schedule, others: Iterable[Schedule], now: int) -> str | None:
    """A warning about dependencies that are due at none of the next ticks, such as one hour off by mistake."""
    ticks: list[int] = []
    tick = schedule.after(now)
    while tick is not None and len(ticks) < _COMPARED_TICKS:
        ticks.append(tick)
        tick = schedule.after(tick)
    needed = [other for other in others if other.name in schedule.job.depends_on]
    apart = [other.name for other in needed if not any(other.tick_of(tick) == tick for tick in ticks)]
    if not apart:
        return None
    return f"{', '.join(map(repr, apart))} is not due at any of the next {len(ticks)} ticks, so they do not wait for it"


class PreviewLine(Struct, frozen=True):
    """A tick, or with `is_change` a clock change, in the local time of the schedule's zone."""

    local: datetime
    note: str | None = None
    is_change: bool = False


def upcoming(schedule: Schedule, after: int, count: int) -> list[PreviewLine]:
    """The next ticks."""
    found: list[PreviewLine] = []
    tick = schedule.after(after)
    while tick is not None and len(found) < count:
        found.append(_line(schedule, tick))
        tick = schedule.after(tick)
    return found


def around_change(schedule: Schedule, after: int, count: int) -> list[PreviewLine]:
    """The last ticks before and the first after the next clock change; empty if there is no change."""
    change = next_change(schedule, after)
    if change is None:
        return []
    instant = to_microseconds(change)
    earlier: list[PreviewLine] = []
    tick = schedule.before(instant)
    while tick is not None and len(earlier) < count:
        earlier.append(_line(schedule, tick))
        tick = schedule.before(tick)
    local = change.astimezone(schedule.ticks.zone)
    old = (change - _MINUTE).astimezone(schedule.ticks.zone) + _MINUTE
    way = "forward" if old.replace(tzinfo=None) < local.replace(tzinfo=None) else "back"
    marked = PreviewLine(local, f"the clock goes {way} from {old:%H:%M} to {local:%H:%M}", is_change=True)
    return [*reversed(earlier), marked, *upcoming(schedule, instant - 1, count)]


def next_change(schedule: Schedule, after: int) -> datetime | None:
    """When the offset of the schedule's zone changes next, within two years."""
    zone, begin = schedule.ticks.zone, exact_datetime(after)
    last = begin + _CHANGE_SEARCH_LIMIT
    while begin < last:
        end = begin + _CHANGE_SEARCH_STEP
        if begin.astimezone(zone).utcoffset() != end.astimezone(zone).utcoffset():
            return offset_change(begin, end, zone)
        begin = end
    return None


def _line(schedule: Schedule, tick: int) -> PreviewLine:
    zone = schedule.ticks.zone
    local, due = exact_datetime(tick).astimezone(zone), exact_datetime(schedule.due_at(tick)).astimezone(zone)
    notes = [_note(schedule, local), f"with its jitter at {due:%H:%M:%S}" if due != local else None]
    return PreviewLine(local, "; ".join(note for note in notes if note) or None)


def _note(schedule: Schedule, local: datetime) -> str | None:
    label = local.replace(tzinfo=None)
    first, second = instants_of(label, schedule.ticks.zone)
    if first < second:
        return f"the {'second' if local.fold else 'first'} of two {label:%H:%M}"
    if isinstance(schedule.ticks, Ticks) and schedule.ticks.expression.after(label - _MINUTE) != label:
        missed = schedule.ticks.expression.before(label)
        return f"instead of {missed:%H:%M}, which is missing that day" if missed else None
    return None
