"""MemoryRecords: what people ask about jobs, and what is done with dead and ended ones."""

from collections.abc import Iterable, Sequence

from tenure.backends.asking import HEAD, STATES, Burial, JobRecord
from tenure.backends.memory.entry import ENDED, Entry
from tenure.backends.memory.listing import page_of
from tenure.backends.memory.table import Table
from tenure.clock import MICROSECOND


class MemoryRecords:
    """Every answer looks through the whole table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        with self._table.changed:
            found: dict[str, dict[str, int]] = {}
            for entry in self._table.entries.values():
                if not ended and entry.state in ENDED:
                    continue
                states = found.setdefault(entry.message.queue, dict.fromkeys(STATES, 0))
                states[entry.state] += 1
            return found

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

    def find(self, id: str) -> JobRecord | None:
        with self._table.changed:
            entry = self._table.entries.get(id)
            return None if entry is None else entry.record(self._table.owner, id in self._table.asked)

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        live = self._where("ready", "delayed", "parked", "leased")
        found = sorted((entry.place[-1], entry.message.body[:HEAD]) for entry in live)
        rest = [(place, head) for place, head in found if place > int(cursor or 0)]
        page = rest[:limit]
        return [head for _, head in page], str(page[-1][0]) if len(rest) > limit else None

    def queues_with(self, state: str) -> list[str]:
        return sorted({entry.message.queue for entry in self._where(state)})

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        with self._table.changed:
            records = [
                (entry.record(self._table.owner), entry.place[-1])
                for entry in self._where(state)
                if entry.message.queue == queue
            ]
        if before is not None:
            records = [each for each in records if each[0].finished_at is None or each[0].finished_at < before]
        return page_of(records, state, limit, cursor)

    def waiting(self) -> list[JobRecord]:
        """Ready and delayed jobs, by queue and then in the order they would run once due; for tests."""
        with self._table.changed:
            entries = sorted(self._where("ready", "delayed"), key=lambda entry: (entry.message.queue, entry.place))
            return [entry.record(self._table.owner) for entry in entries]

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        with self._table.changed:
            records = [entry.record(self._table.owner) for entry in self._where("dead")]
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
                entry.suspect, entry.ended, entry.reason, entry.finished = False, None, None, None
                self._table.wait_until(entry, 0, now)
            self._table.changed.notify_all()
            return [entry.message.id for entry in entries]

    def discard(self, ids: Sequence[str]) -> list[str]:
        with self._table.changed:
            gone = [entry.message.id for entry in self._dead(ids)]
            for id in gone:
                del self._table.entries[id]
            return gone

    def bury(self, burials: Sequence[Burial]) -> list[str]:
        with self._table.changed:
            now, fresh = self._table.clock.now(), []
            for burial in burials:
                if burial.message.id in self._table.entries:
                    continue
                entry = self._table.add(burial.message, now, now)
                entry.state, entry.reason, entry.finished = "dead", burial.reason, now
                entry.attempts = burial.attempts
                entry.charge(None, burial.failure)
                fresh.append(burial.message.id)
            return fresh

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        with self._table.changed:
            old = [
                entry.message.id
                for entry in self._where(state)
                if entry.finished is not None and entry.finished < before and queue in (None, entry.message.queue)
            ]
            for id in old[:limit]:
                del self._table.entries[id]
            return len(old[:limit])

    def _where(self, *states: str) -> list[Entry]:
        with self._table.changed:
            return [entry for entry in self._table.entries.values() if entry.state in states]

    def _dead(self, ids: Iterable[str]) -> list[Entry]:
        found = [self._table.entries[id] for id in dict.fromkeys(ids) if id in self._table.entries]
        return [entry for entry in found if entry.state == "dead"]
