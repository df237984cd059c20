"""The jobs, counts, control and dead letters of the memory backend; every answer reads the whole table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from tenure.backends.ends import EndWait, Wakeup
from tenure.backends.memory.table import WAITING_STATES, JobEntry, JobTable
from tenure.backends.messages import Ack, Lease
from tenure.backends.parts import HEAD_BYTES
from tenure.backends.records import (
    CancelResult,
    JobRecord,
    NewDeadLetter,
    RescheduleResult,
    by_prefix,
    read_key,
    tagged_page,
)
from tenure.clock import MICROSECOND
from tenure.definition.context import Progress
from tenure.events import END_STATES, ENDED_WELL, JOB_STATES


class MemoryJobs:
    def __init__(self, table: JobTable) -> None:
        self._table = table

    def find(self, id: str) -> JobRecord | None:
        with self._table.changed:
            entry = self._table.entries.get(id)
            return None if entry is None else entry.record(self._table.owner, id in self._table.asked)

    def queues_with(self, state: str) -> list[str]:
        return sorted({entry.message.queue for entry in _where(self._table, state)})

    def page(
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,
    ) -> tuple[list[JobRecord], str | None]:
        with self._table.changed:
            records = [
                (entry.record(self._table.owner), entry.place[-1])
                for entry in _where(self._table, state)
                if entry.message.queue == queue
            ]
        if before is not None:
            records = [each for each in records if each[0].finished_at is None or each[0].finished_at < before]
        page, after = _page(records, state, limit, cursor)
        return page if bodies else _without_bodies(page), after

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        page, after = tagged_page(self._where(lambda record: tag in record.tags), limit, cursor)
        return _without_bodies(page), after

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        return _without_bodies(by_prefix(self._where(lambda record: record.id.startswith(prefix)), prefix, limit))

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        with self._table.changed:
            old = [
                entry.message.id
                for entry in _where(self._table, state)
                if entry.finished is not None and entry.finished < before and queue in (None, entry.message.queue)
            ]
            for id in old[:limit]:
                del self._table.entries[id]
            return len(old[:limit])

    def forget(self, ids: Sequence[str]) -> list[str]:
        with self._table.changed:
            ended = [self._table.entries[id] for id in dict.fromkeys(ids) if id in self._table.entries]
            ended = [entry for entry in ended if entry.state in ENDED_WELL]
            for entry in ended:
                entry.message = structs.replace(entry.message, body=b"")
                if isinstance(entry.ended, Ack):
                    entry.ended = structs.replace(entry.ended, output=None)
            return [entry.message.id for entry in ended]

    def _where(self, is_wanted: Callable[[JobRecord], bool]) -> list[JobRecord]:
        with self._table.changed:
            records = [entry.record(self._table.owner) for entry in self._table.entries.values()]
        return [record for record in records if is_wanted(record)]

    def delete(self, ids: Sequence[str]) -> list[str]:
        with self._table.changed:
            found = [self._table.entries.get(id) for id in dict.fromkeys(ids)]
            ended = [entry.message.id for entry in found if entry is not None and entry.state in ENDED_WELL]
            for id in ended:
                del self._table.entries[id]
            return ended

    def waiting(self) -> list[JobRecord]:
        """Ready and delayed jobs, by queue and then in the order they would run once due; for tests."""
        with self._table.changed:
            entries = sorted(
                _where(self._table, "ready", "delayed"), key=lambda entry: (entry.message.queue, entry.place)
            )
            return [entry.record(self._table.owner) for entry in entries]


class MemoryRecentJobs:
    def __init__(self, table: JobTable) -> None:
        self._table = table

    def page(
        self,
        *,
        limit: int,
        cursor: str | None = None,
        queues: Sequence[str] = (),
        handler: str | None = None,
        max_read: int = 10_000,
    ) -> tuple[list[JobRecord], str | None]:
        before, found = read_key(cursor), []
        with self._table.changed:
            older = [entry for entry in self._table.entries.values() if entry.place[-1] < before]
            older.sort(key=lambda entry: -entry.place[-1])
            for entry in older[:max_read]:
                if (not queues or entry.message.queue in queues) and handler in (None, entry.message.handler):
                    found.append(entry.record(self._table.owner))
                if len(found) == limit:
                    return _without_bodies(found), str(entry.place[-1])
        return _without_bodies(found), str(older[max_read - 1].place[-1]) if len(older) > max_read else None


class MemoryQueueCounts:
    def __init__(self, table: JobTable) -> None:
        self._table = table

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        with self._table.changed:
            found: dict[str, dict[str, int]] = {}
            for entry in self._table.entries.values():
                if not ended and entry.state in ENDED_WELL:
                    continue
                states = found.setdefault(entry.message.queue, dict.fromkeys(JOB_STATES, 0))
                states[entry.state] += 1
            return found

    def ended_since(self, state: str, queue: str, since: int, limit: int) -> int:
        ended = [entry for entry in _where(self._table, state) if entry.message.queue == queue]
        return min(limit, sum(entry.finished is not None and entry.finished >= since for entry in ended))

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        with self._table.changed:
            now = self._table.clock.now()
            waiting = [
                (entry.fence > 0, entry.due, entry.message.queue)
                for entry in self._table.entries.values()
                if entry.state == "ready" or (entry.state == "delayed" and entry.due <= now)
            ]
        found: dict[str, float] = {}
        for _, due, queue in sorted(waiting):
            if queue in queues:
                found.setdefault(queue, max(0, now - due) / MICROSECOND)
        return found


class MemoryEnds:
    def __init__(self, table: JobTable) -> None:
        self._table = table

    def ended(self, ids: Sequence[str]) -> set[str]:
        with self._table.changed:
            found = [(id, self._table.entries.get(id)) for id in ids]
            return {id for id, entry in found if entry is None or entry.state in END_STATES}

    @contextmanager
    def watch(self, wakeup: Wakeup) -> Iterator[EndWait]:
        seen = 0

        def wait(seconds: float, _: float) -> bool:
            nonlocal seen
            is_over = seen == self._table.ends_told and wakeup.wait(seconds)  # else it may have been cleared since
            before, seen = seen, self._table.ends_told
            return is_over or seen != before

        with self._table.changed:
            self._table.end_watchers.add(wakeup)
        try:
            yield wait
        finally:
            with self._table.changed:
                self._table.end_watchers.discard(wakeup)


class MemoryDeadLetters:
    def __init__(self, table: JobTable) -> None:
        self._table = table

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        with self._table.changed:
            records = [entry.record(self._table.owner) for entry in _where(self._table, "dead")]
        records = [record for record in records if queue in (None, record.queue)]
        records.sort(key=lambda record: (record.finished_at or 0, record.id))
        return [record for record in records if after is None or (record.finished_at or 0, record.id) > after][:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        with self._table.changed:
            now = self._table.clock.now()
            entries = sorted(self._dead(ids), key=lambda entry: (entry.enqueued, entry.message.id))
            for entry in entries:
                entry.place = (-entry.message.priority, self._table.next_key())
                entry.due = now
                entry.attempts = entry.crashes = 0
                entry.vanished, entry.ended, entry.reason, entry.finished = 0, None, None, None
                self._table.wait_until(entry, 0, now)
            self._table.changed.notify_all()
            return [entry.message.id for entry in entries]

    def discard(self, ids: Sequence[str]) -> list[str]:
        with self._table.changed:
            gone = [entry.message.id for entry in self._dead(ids)]
            for id in gone:
                del self._table.entries[id]
            self._table.tell_ends()
            return gone

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        with self._table.changed:
            now, fresh = self._table.clock.now(), []
            for letter in letters:
                if letter.message.id in self._table.entries:
                    continue
                entry = self._table.add(letter.message, now, now)
                entry.state, entry.reason, entry.finished = "dead", letter.reason, now
                entry.attempts = letter.attempts
                entry.charge(None, letter.failure)
                fresh.append(letter.message.id)
            return fresh

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        old = [letter.id for letter in self.page(queue=queue, limit=limit) if (letter.finished_at or 0) < before]
        return len(self.discard(old))

    def _dead(self, ids: Iterable[str]) -> list[JobEntry]:
        found = [self._table.entries[id] for id in dict.fromkeys(ids) if id in self._table.entries]
        return [entry for entry in found if entry.state == "dead"]


def _where(table: JobTable, *states: str) -> list[JobEntry]:
    with table.changed:
        return [entry for entry in table.entries.values() if entry.state in states]


def _page(
    records: Iterable[tuple[JobRecord, int]], state: str, limit: int, cursor: str | None
) -> tuple[list[JobRecord], str | None]:
    """A page of records of one state, each with its order of enqueue; the cursor is the number already shown."""

    def place(item: tuple[JobRecord, int]) -> tuple[int, int]:
        record, order = item
        if state in END_STATES:
            return -(record.finished_at or 0), -order
        when = {"delayed": record.due_at, "leased": record.lease_until or 0}
        return when.get(state, -record.priority), order

    start = int(cursor or 0)
    found = [record for record, _ in sorted(records, key=place)[start : start + limit]]
    return found, str(start + limit) if len(found) == limit else None


def _without_bodies(records: Iterable[JobRecord]) -> list[JobRecord]:
    return [structs.replace(record, body=None) for record in records]


class MemoryControl:
    """Requests to cancel are stored beside the jobs."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def cancel(self, ids: Sequence[str]) -> dict[str, CancelResult]:
        with self._table.changed:
            results: dict[str, CancelResult] = {
                id: self._cancel(self._table.entries.get(id)) for id in dict.fromkeys(ids)
            }
            self._table.tell_ends()
            return results

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

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        live = _where(self._table, "ready", "delayed", "parked", "leased")
        found = sorted((entry.place[-1], entry.message.body[:HEAD_BYTES]) for entry in live)
        rest = [(place, head) for place, head in found if place > int(cursor or 0)]
        page = rest[:limit]
        return [head for _, head in page], str(page[-1][0]) if len(rest) > limit else None

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
