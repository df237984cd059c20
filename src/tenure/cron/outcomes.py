"""Outcomes: what the end of a job says about the tick that it was made for; pure functions."""

from tenure.backends.ledger import Note, TickRecord
from tenure.events import Settlement, Status, Tick, TickFailed, TickSkipped, TickSucceeded

_SUCCEEDED = (Status.ACKED, Status.SKIPPED_IDEMPOTENT)
_FAILED = (Status.DEAD_LETTERED, Status.REJECTED, Status.CANCELLED, Status.EXPIRED)


def noted(settlement: Settlement) -> Note | None:
    """The note on the tick, if its job has ended."""
    if settlement.status in _SUCCEEDED:
        return Note(settlement.id, "succeeded")
    if settlement.status in _FAILED:
        return Note(settlement.id, "failed", settlement.reason or settlement.status.value)
    return None


def ending(record: TickRecord) -> Tick | None:
    """The event that a tick has ended."""
    if record.state == "succeeded":
        return TickSucceeded(record.schedule, record.tick, record.id)
    if record.state == "failed":
        return TickFailed(record.schedule, record.tick, record.id, record.why)
    return TickSkipped(record.schedule, record.tick, record.why) if record.state == "skipped" else None
