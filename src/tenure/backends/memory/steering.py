"""MemorySteering: cancelling and rescheduling jobs from outside, and how far they are."""

from collections.abc import Sequence

from tenure.backends.asking import Fate, Turn
from tenure.backends.contract import Lease
from tenure.backends.memory.entry import WAITING, Entry
from tenure.backends.memory.table import Table
from tenure.clock import MICROSECOND
from tenure.definition.progress import Progress


class MemorySteering:
    """Requests to stop are kept beside the jobs."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def cancel(self, ids: Sequence[str]) -> dict[str, Fate]:
        with self._table.changed:
            return {id: self._cancel(self._table.entries.get(id)) for id in dict.fromkeys(ids)}

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, Turn]:
        with self._table.changed:
            now = self._table.clock.now()
            moment = due or now + round(delay * MICROSECOND)
            turns = {id: self._reschedule(self._table.entries.get(id), moment, now) for id in dict.fromkeys(ids)}
            self._table.changed.notify_all()
            return turns

    def asked_to_stop(self, leases: Sequence[Lease]) -> list[Lease]:
        with self._table.changed:
            asked = self._table.asked
            return [lease for lease in leases if lease.id in asked and self._table.held(lease)] if asked else []

    def note_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        with self._table.changed:
            for lease, progress in items:
                entry = self._table.held(lease)
                if entry is not None:
                    entry.progress = progress

    def _cancel(self, entry: Entry | None) -> Fate:
        if entry is None:
            return "unknown"
        if entry.state == "leased":
            self._table.asked.add(entry.message.id)
            return "asked"
        if entry.state not in WAITING:
            return "too_late"
        self._table.stop_waiting(entry)
        self._table.cancel(entry)
        return "cancelled"

    def _reschedule(self, entry: Entry | None, due: int, now: int) -> Turn:
        if entry is None:
            return "unknown"
        if entry.state not in WAITING:
            return "running" if entry.state == "leased" else "too_late"
        self._table.stop_waiting(entry)
        entry.due, entry.waits_for, entry.reason = due, None, None
        self._table.wait_until(entry, due, now)
        return "rescheduled"
