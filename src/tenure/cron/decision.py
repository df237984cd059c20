"""What happens to ticks: which missed ones run, which are put, run inline, wait or are skipped, and why.

Pure functions of schedules and of what the ledger holds. Moments are UTC microseconds.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from tenure.backends.ledger import ALL_SCHEDULES, TickRecord, TickState
from tenure.clock import MICROSECOND
from tenure.cron.schedule import MINUTE, Overlap, Schedule, tick_id
from tenure.errors import InvalidSchedule

DEPENDENCY_TIMEOUT = 600 * MICROSECOND  # how long a tick waits for a dependency that is due and not in the ledger


class DependencyState(StrEnum):
    """What happened to a dependency in the tick of its dependent."""

    NOT_DUE = "not due"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


_DEPENDENCY_STATES: dict[TickState, DependencyState] = {
    "succeeded": DependencyState.SUCCEEDED,
    "failed": DependencyState.FAILED,
    "skipped": DependencyState.SKIPPED,
}


class CatchUp(Struct, frozen=True):
    """`run` are the ticks to run, oldest first; `dropped` the first and last dropped tick; `until` the newest tick."""

    run: tuple[int, ...]
    dropped: tuple[int, int] | None
    until: int


def catch_up(schedule: Schedule, last: int, now: int) -> CatchUp:
    """Which of the due ticks after `last` run; the cost depends on how many run, not on how many were missed."""
    until = _newest_due(schedule, now)
    if until is None or until <= last:
        return CatchUp((), None, last)
    limit, earliest = _misfire_limits(schedule, now)
    run: list[int] = []
    found: int | None = until
    while found is not None and found > last and len(run) < limit and schedule.due_at(found) >= earliest:
        run.append(found)
        found = schedule.before(found)
    run.reverse()
    if found is None or found <= last:
        return CatchUp(tuple(run), None, until)
    return CatchUp(tuple(run), (schedule.after(last) or found, found), until)


def _newest_due(schedule: Schedule, now: int) -> int | None:
    """The last tick that is due; the jitter of the newest tick may not be over yet."""
    tick = schedule.before(now + 1)
    return schedule.before(tick) if tick is not None and schedule.due_at(tick) > now else tick


def _misfire_limits(schedule: Schedule, now: int) -> tuple[float, float]:
    """How many ticks may run, and the earliest due time of a tick that may run."""
    misfire = schedule.misfire
    if misfire.policy == "latest":
        return 1, float("-inf")
    if misfire.policy == "all":
        return misfire.limit, now - misfire.age * MICROSECOND
    # Late ticks of an interval of ten seconds are not made up for all at once.
    return float("inf") if schedule.interval is None else 1, now - misfire.grace * MICROSECOND


def decide(
    schedule: Schedule, dependencies: Mapping[str, DependencyState], earlier: int, blocked: str | None
) -> tuple[TickState, str | None]:
    """The state of a tick, and why; `earlier` counts the unended ticks before it, `blocked` is why it may not run."""
    if blocked is not None:
        return "skipped", blocked
    check = check_dependencies(schedule, dependencies)
    if check.verdict == "skip":
        return "skipped", check.why
    admission = admit(schedule.overlap, earlier)
    if admission is Admission.SKIP:
        return "skipped", "an earlier tick has not ended"
    if check.verdict == "wait":
        return "waiting", check.why
    if admission is Admission.WAIT:
        return "waiting", "waits for an earlier tick to end"
    return "running" if schedule.inline else "enqueued", None


def reason_to_skip(schedule: Schedule, environment: str, paused: Collection[str] = ()) -> str | None:
    """Why a schedule does not run in this environment, or with these schedules paused."""
    if not schedule.job.enabled:
        return "disabled"
    allowed = schedule.job.environments
    if allowed and environment not in allowed:
        return f"only in {', '.join(allowed)}; this is {environment}"
    if ALL_SCHEDULES in paused:
        return "all schedules are paused"
    return "paused" if schedule.name in paused else None


class DependencyCheck(Struct, frozen=True):
    """Whether a dependent may start, and if not, why."""

    verdict: Literal["ready", "wait", "skip"]
    why: str | None = None


def check_dependencies(schedule: Schedule, states: Mapping[str, DependencyState]) -> DependencyCheck:
    """A dependent waits until all its dependencies succeeded in its tick; those that are not due do not count."""
    found = {name: states.get(name, DependencyState.NOT_DUE) for name in schedule.job.depends_on}
    for name, state in found.items():
        if state in (DependencyState.FAILED, DependencyState.SKIPPED):
            verb = "failed" if state is DependencyState.FAILED else "was skipped"
            return DependencyCheck("skip", f"depends on {name!r}, which {verb}")
    pending = [name for name, state in found.items() if state is DependencyState.PENDING]
    if pending:
        return DependencyCheck("wait", f"waits for {', '.join(map(repr, pending))}")
    return DependencyCheck("ready")


def dependency_state(
    needed: Schedule, tick: int, record: TickRecord | None, environment: str, now: int
) -> DependencyState:
    """What happened to a dependency in this tick; `record` is its tick in the ledger, if there is one."""
    if record is not None:
        return _DEPENDENCY_STATES.get(record.state, DependencyState.PENDING)
    if needed.tick_of(tick) != tick:
        return DependencyState.NOT_DUE
    if reason_to_skip(needed, environment) or now > needed.due_at(tick) + DEPENDENCY_TIMEOUT:
        return DependencyState.SKIPPED
    return DependencyState.PENDING


def dependency_ids(schedule: Schedule, tick: int) -> dict[str, str]:
    """Name → id of the ticks that this tick depends on."""
    return {name: tick_id(name, tick) for name in schedule.job.depends_on}


class Admission(StrEnum):
    """What the overlap policy lets a tick do: start, wait until the tick before it has ended, or be skipped."""

    START = "start"
    WAIT = "wait"
    SKIP = "skip"


def admit(policy: Overlap, unended: int) -> Admission:
    """`unended` counts the earlier ticks that run or wait; `queue_one` lets one run and one wait."""
    if policy == "allow" or not unended:
        return Admission.START
    return Admission.WAIT if policy == "queue_one" and unended == 1 else Admission.SKIP


class PlannedTick(Struct, frozen=True):
    """What one tick of a schedule does: put its job on a queue, run it inline, or skip it because of `why`."""

    schedule: Schedule
    tick: int
    action: Literal["enqueue", "run", "skip"]
    why: str | None = None


def plan(
    schedules: Sequence[Schedule],
    moment: int,
    environment: str,
    only: Collection[str] = (),
    paused: Collection[str] = (),
) -> list[PlannedTick]:
    """The ticks in the minute of this moment; with `only`, one tick of each named schedule, due or not.

    `schedules` are in the order of their dependencies.
    """
    if unknown := set(only) - {schedule.name for schedule in schedules}:
        known = ", ".join(schedule.name for schedule in schedules) or "none"
        raise InvalidSchedule(f"no schedule is called {min(unknown)!r}; there are: {known}")
    minute = moment - moment % MINUTE
    planned: list[PlannedTick] = []
    states: dict[str, DependencyState] = {}
    for schedule in schedules:
        tick = schedule.tick_of(moment)
        if only:
            tick = None if schedule.name not in only else minute if tick is None else tick
        if tick is None:
            continue
        why = reason_to_skip(schedule, environment, paused) or check_dependencies(schedule, states).why
        states[schedule.name] = DependencyState.SKIPPED if why else DependencyState.SUCCEEDED
        planned.append(PlannedTick(schedule, tick, "skip" if why else "run" if schedule.inline else "enqueue", why))
    return planned
