"""What becomes of a tick that is due: its job is put or run, it waits, or it is left out; pure functions."""

from collections.abc import Collection, Mapping

from tenure.backends.ledger import EVERY, TickRecord, TickState
from tenure.clock import MICROSECOND
from tenure.cron.dependencies import Fate, hold
from tenure.cron.occurrence import job_id
from tenure.cron.overlap import Admission, admit
from tenure.cron.plan import reason_to_skip
from tenure.cron.schedule import Schedule

PATIENCE = 600 * MICROSECOND  # for a dependency that is due and that nobody has entered
_FATES: dict[TickState, Fate] = {
    "succeeded": Fate.SUCCEEDED,
    "failed": Fate.FAILED,
    "skipped": Fate.SKIPPED,
}


def decide(
    schedule: Schedule, fates: Mapping[str, Fate], earlier: int, obstacle: str | None
) -> tuple[TickState, str | None]:
    """`earlier` counts the ticks before this one that have not ended; `obstacle` is why it may not run at all."""
    if obstacle is not None:
        return "skipped", obstacle
    held = hold(schedule, fates)
    if held.verdict == "skip":
        return "skipped", held.why
    admission = admit(schedule.overlap, earlier)
    if admission is Admission.SKIP:
        return "skipped", "an earlier tick has not ended"
    if held.verdict == "wait":
        return "waiting", held.why
    if admission is Admission.WAIT:
        return "waiting", "waits for an earlier tick to end"
    return "running" if schedule.inline else "enqueued", None


def obstacle_of(schedule: Schedule, environment: str, paused: Collection[str]) -> str | None:
    """Why a schedule does not run here and now."""
    if why := reason_to_skip(schedule, environment):
        return why
    if EVERY in paused:
        return "all schedules are paused"
    return "paused" if schedule.name in paused else None


def fate_of(needed: Schedule, tick: int, record: TickRecord | None, environment: str, now: int) -> Fate:
    """What became of a dependency in this tick, as far as the ledger knows."""
    if record is not None:
        return _FATES.get(record.state, Fate.PENDING)
    if needed.tick_of(tick) != tick:
        return Fate.NOT_DUE
    if reason_to_skip(needed, environment) or now > needed.due_at(tick) + PATIENCE:
        return Fate.SKIPPED
    return Fate.PENDING


def ids_needed(schedule: Schedule, tick: int) -> dict[str, str]:
    """Name → id of the ticks that this one waits for."""
    return {name: job_id(name, tick) for name in schedule.job.depends_on}
