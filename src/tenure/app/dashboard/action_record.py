"""ActionRecord: the audit record of an action as programs read it, with all its fields and with times."""

from datetime import datetime

from msgspec import Struct

from tenure.backends.records import AuditRecord
from tenure.clock import to_datetime


class ActionRecord(Struct, frozen=True, kw_only=True):
    """Who did what, to what, why and when; `counts` says how many jobs had each result so far.

    `state` is `running`, `done`, `stopped` or `failed`; `origin` is `web`, `api`, `cli` or `python`.
    """

    id: str
    at: datetime
    actor: str
    action: str
    target: str
    why: str | None
    origin: str
    state: str
    total: int | None
    counts: dict[str, int]
    ended_at: datetime | None
    error: str | None


def action_record(record: AuditRecord) -> ActionRecord:
    return ActionRecord(
        id=record.id,
        at=to_datetime(record.at),
        actor=record.actor,
        action=record.action,
        target=record.target,
        why=record.why,
        origin=record.origin,
        state=record.state,
        total=record.total,
        counts=record.counts,
        ended_at=None if record.ended_at is None else to_datetime(record.ended_at),
        error=record.error,
    )
