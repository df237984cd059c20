"""A schedule in sentences, for those who ask why it runs when it does."""

from collections.abc import Iterable

from tenure.cron.plan import reason_to_skip
from tenure.cron.schedule import Schedule

_TICKS = 100
_MISSING = {
    "after": "runs right after the clock has jumped",
    "skip": "a time that a change of the clock leaves out is left out",
}
_REPEATED = {
    "first": "runs the first time only",
    "second": "runs the second time only",
    "both": "a time that is shown twice runs twice",
}
_OVERLAP = {
    "allow": "a tick starts even while earlier ones have not ended",
    "skip": "a tick is skipped while an earlier one has not ended",
    "queue_one": "one tick waits while an earlier one has not ended, others are skipped",
}


def describe(expression: str) -> str:
    """The expression in words; the few that cronsim cannot put into words stay as they are."""
    from cronsim.explain import explain  # only for those who read it

    try:
        return explain(expression)
    except ValueError:
        return f"When {expression} is due"


def explain(schedule: Schedule, environment: str) -> dict[str, str]:
    """What a schedule does, topic by topic; what was not asked for is left out."""
    missing, repeated = schedule.daylight.resolve(schedule.ticks.expression)
    wildcard = "" if schedule.ticks.expression.is_fixed else "follows real time: "
    told: dict[str, str | None] = {
        "not here": reason_to_skip(schedule, environment),
        "runs": "in the scheduler, for one attempt" if schedule.inline else f"on queue {schedule.job.queue!r}",
        "when": describe(schedule.expression),
        "expression": schedule.expression,
        "zone": schedule.timezone,
        "starts": str(schedule.starts_at) if schedule.starts_at else None,
        "ends": str(schedule.ends_at) if schedule.ends_at else None,
        "missing times": (wildcard if missing == "skip" else "") + _MISSING[missing],
        "repeated times": (wildcard if repeated == "both" else "") + _REPEATED[repeated],
        "jitter": f"each tick runs up to {schedule.jitter:g} s later" if schedule.jitter else None,
        "missed ticks": _missed(schedule),
        "overlap": _OVERLAP[schedule.overlap],
        "depends on": _depends(schedule),
    }
    return {topic: sentence for topic, sentence in told.items() if sentence is not None}


def never_together(schedule: Schedule, others: Iterable[Schedule], now: int) -> str | None:
    """Which dependencies are due at none of the next ticks: an hour of difference is a common slip."""
    ticks: list[int] = []
    tick = schedule.after(now)
    while tick is not None and len(ticks) < _TICKS:
        ticks.append(tick)
        tick = schedule.after(tick)
    needed = [other for other in others if other.name in schedule.job.depends_on]
    apart = [other.name for other in needed if not any(other.tick_of(tick) == tick for tick in ticks)]
    if not apart:
        return None
    return f"{', '.join(map(repr, apart))} is not due at any of the next {len(ticks)} ticks, and so holds nothing back"


def _missed(schedule: Schedule) -> str:
    misfire = schedule.misfire
    if misfire.policy == "latest":
        return "runs the last one, however late"
    if misfire.policy == "all":
        return f"runs the last {misfire.most}, none older than {misfire.age:g} s"
    return f"runs what is up to {misfire.grace:g} s late, and drops the rest"


def _depends(schedule: Schedule) -> str | None:
    names = ", ".join(map(repr, schedule.job.depends_on))
    return f"{names}: runs when their runs of the same tick succeeded" if names else None
