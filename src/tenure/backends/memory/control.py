"""MemoryControl: cancels, reschedules and follows jobs from outside."""

from collections.abc import Sequence

from tenure.backends.memory.table import WAITING_STATES, JobEntry, JobTable
from tenure.backends.messages import Lease
from tenure.backends.records import CancelResult, RescheduleResult
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress


class MemoryControl:
    """Requests to cancel are stored beside the jobs."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def cancel(self, ids: Sequence[str]) -> dict[str, CancelResult]:
        with self._table.changed:
            return {id: self._cancel(self._table.entries.get(id)) for id in dict.fromkeys(ids)}

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, RescheduleResult]:
        with self._table.changed:
            now = self._table.clock.now()
            moment = due or now + round(delay * MICROSECOND)
            results: dict[str, RescheduleResult] = {}
            for id in dict.fromkeys(ids):
                results[id] = self._reschedule(self._table.entries.get(id), moment, now)
            self._table.changed.notify_all()
            return results

    def cancel_requested(self, leases: Sequence[Lease]) -> list[Lease]:
        with self._table.changed:
            asked = self._table.asked
            return [lease for lease in leases if lease.id in asked and self._table.held(lease)] if asked else []

    def save_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        with self._table.changed:
            for lease, progress in items:
                entry = self._table.held(lease)
                if entry is not None:
                    entry.progress = progress

    def _cancel(self, entry: JobEntry | None) -> CancelResult:
        if entry is None:
            return "unknown"
        if entry.state == "leased":
            self._table.asked.add(entry.message.id)
            return "asked"
        if entry.state not in WAITING_STATES:
            return "too_late"
        self._table.stop_waiting(entry)
        self._table.cancel(entry)
        return "cancelled"

    def _reschedule(self, entry: JobEntry | None, due: int, now: int) -> RescheduleResult:
        if entry is None:
            return "unknown"
        if entry.state not in WAITING_STATES:
            return "running" if entry.state == "leased" else "too_late"
        self._table.stop_waiting(entry)
        entry.due, entry.waits_for, entry.reason = due, None, None
        self._table.wait_until(entry, due, now)
        return "rescheduled"
