"""The audit page: what users did, the newest first; a read is bounded, also with a filter."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import ACTIONS, Access
from tenure.app.dashboard.core import Sources
from tenure.backends.parts import AuditLog
from tenure.backends.records import AuditRecord
from tenure.clock import MICROSECOND, to_datetime
from tenure.definition.duration import to_seconds
from tenure.errors import InvalidFilter, TenureError

PAGE_SIZE = 50
MAX_READ = 5000  # records of one request
_READ_SIZE = 500
_OTHER_ACTIONS = ("sign-in", "sign-out", "outbox.retry", "outbox.delete")  # beside the commands of the dashboard


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which records: of this user, of this action or of those that begin so (`queue.`), since this time."""

    user: str = ""
    action: str = ""
    since: int = 0  # UTC microseconds

    def accepts(self, record: AuditRecord) -> bool:
        return (not self.user or record.actor == self.user) and (
            not self.action
            or record.action == self.action
            or (self.action.endswith(".") and record.action.startswith(self.action))
        )


class AuditPart(Struct, frozen=True, kw_only=True):
    """Some records, and the id after which the next part begins; None after the last.

    `stopped`: as many records as one read may take were read, and there may be more.
    """

    records: tuple[AuditRecord, ...]
    next: str | None = None
    stopped: bool = False


def read_audit(log: AuditLog, wanted: AuditFilter, limit: int, before: str | None = None) -> AuditPart:
    """Up to `limit` records that match, the newest first, from before this id."""
    found: list[AuditRecord] = []
    read = 0
    for record in islice(_walk(log, before, _READ_SIZE if wanted != AuditFilter() else limit + 1), MAX_READ):
        if record.at < wanted.since:
            return AuditPart(records=tuple(found))
        if len(found) == limit:
            return AuditPart(records=tuple(found), next=found[-1].id)
        read, before = read + 1, record.id
        if wanted.accepts(record):
            found.append(record)
    stopped = read >= MAX_READ
    return AuditPart(records=tuple(found), next=before if stopped else None, stopped=stopped)


def _walk(log: AuditLog, before: str | None, size: int) -> Iterator[AuditRecord]:
    while page := log.page(limit=size, before=before):
        yield from page
        if len(page) < size:
            return
        before = page[-1].id


class AuditRow(Struct, frozen=True, kw_only=True):
    """One record; `result` is how many jobs had each result, in words."""

    id: str
    at: datetime
    user: str
    action: str
    target: str
    result: str
    why: str | None
    origin: str
    state: str
    ended_at: datetime | None
    error: str | None


class AuditPage(Struct, frozen=True, kw_only=True):
    """`rows` is None if the backend keeps no audit log, and no store is set beside it."""

    at: datetime
    rows: tuple[AuditRow, ...] | None
    actions: tuple[str, ...] = ()
    next: str | None = None
    stopped: bool = False


class AuditQuery(Struct, frozen=True, kw_only=True):
    """`since` is how far back, such as `24h` or `7d`; `before` is the id of the last record of the page before."""

    page: ClassVar[str] = "audit"
    user: str = ""
    action: str = ""
    since: str = ""
    before: str = ""

    def read(self, sources: Sources, access: Access) -> AuditPage:
        log = sources.parts.audit
        if log is None:
            return AuditPage(at=sources.now, rows=None)
        wanted = AuditFilter(user=self.user, action=self.action, since=self._since(sources.app.clock.now()))
        part = read_audit(log, wanted, PAGE_SIZE, self.before or None)
        return AuditPage(
            at=sources.now,
            rows=tuple(map(audit_row, part.records)),
            actions=(*ACTIONS, *_OTHER_ACTIONS),
            next=part.next,
            stopped=part.stopped,
        )

    def _since(self, now: int) -> int:
        if not self.since:
            return 0
        try:
            return now - round(to_seconds(self.since, "since") * MICROSECOND)
        except (TenureError, ValueError) as error:
            raise InvalidFilter(f"since must be a time such as 30m, 24h or 7d, not {self.since!r}") from error


def audit_row(record: AuditRecord) -> AuditRow:
    return AuditRow(
        id=record.id,
        at=to_datetime(record.at),
        user=record.actor,
        action=record.action,
        target=record.target,
        result=describe_result(record),
        why=record.why,
        origin=record.origin,
        state=record.state,
        ended_at=None if record.ended_at is None else to_datetime(record.ended_at),
        error=record.error,
    )


def describe_result(record: AuditRecord) -> str:
    """How many jobs had each result, such as `1,000 cancelled, 2 too late of 1,509`."""
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in record.counts.items() if count)
    total = "" if record.total is None or record.total == sum(record.counts.values()) else f" of {record.total:,}"
    return f"{counts}{total}" if counts else f"none{total}" if record.state != "running" else f"running{total}"
