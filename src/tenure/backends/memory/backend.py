"""MemoryBackend: every verb of the contract and every optional protocol, on dictionaries and heaps.

A lease is taken under one lock, lost when it expires and is reaped; `abandon` keeps the bytes.
Order is strict: priority, then enqueue. Nothing survives the process, and no other process sees it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar
from urllib.parse import SplitResult

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Park, Reaped
from tenure.backends.memory.chronicle import MemoryChronicle
from tenure.backends.memory.entry import Entry
from tenure.backends.memory.ledger import MemoryLedger
from tenure.backends.memory.records import MemoryRecords
from tenure.backends.memory.roster import MemoryRoster
from tenure.backends.memory.statistics import MemoryStatistics
from tenure.backends.memory.steering import MemorySteering
from tenure.backends.memory.table import Table
from tenure.backends.opening import options
from tenure.clock import MICROSECOND, Clock, SystemClock
from tenure.guards.memory import MemoryStore

V = TypeVar("V", Ack, Nack, Abandon, Park)


class MemoryBackend:
    """The hot verbs, and by delegation what the other files of this folder can do on the same table."""

    in_process: Literal[True] = True

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._table = table = Table(self._clock)
        records = MemoryRecords(table)
        self.counts, self.oldest, self.find, self.heads = records.counts, records.oldest, records.find, records.heads
        self.queues_with, self.page, self.waiting = records.queues_with, records.page, records.waiting
        self.dead, self.replay, self.discard, self.bury = records.dead, records.replay, records.discard, records.bury
        self.trim = records.trim
        steering = MemorySteering(table)
        self.cancel, self.reschedule = steering.cancel, steering.reschedule
        self.asked_to_stop, self.note_progress = steering.asked_to_stop, steering.note_progress
        roster = MemoryRoster(table)
        self.greet, self.part, self.workers = roster.greet, roster.part, roster.workers
        statistics = MemoryStatistics()
        self.note_tallies, self.tallies = statistics.note_tallies, statistics.tallies
        self.fold_tallies, self.drop_tallies = statistics.fold_tallies, statistics.drop_tallies
        self._store = store = MemoryStore(self._clock, table.changed, table.wake)
        self.change, self.look, self.sweep, self.rouse = store.change, store.look, store.sweep, store.rouse
        self.ledger = MemoryLedger(self._clock, table.changed, self.put)
        self.chronicle = MemoryChronicle()

    def put(self, messages: Sequence[Message]) -> list[str]:
        table = self._table
        with table.changed:
            now = self._clock.now()
            fresh = []
            for message in messages:
                if message.id in table.entries or message.unique in table.uniques:
                    continue
                if message.unique is not None:
                    table.uniques[message.unique] = message.id
                due = message.due or now + round(message.delay * MICROSECOND)
                table.wait_until(table.add(message, now, due), due, now)
                fresh.append(message.id)
            table.changed.notify_all()
            return fresh

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        give_up = time.monotonic() + wait  # the host's time: a wait is real even when a test's clock stands still
        with self._table.changed:
            while True:
                leases = self._table.take(queues, limit, seconds)
                left = give_up - time.monotonic()
                if leases or left <= 0:
                    return leases
                self._table.changed.wait(min(left, self._table.until_due(queues)))

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle(verdicts, self._end)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle(verdicts, self._return)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle(verdicts, self._end)

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle(verdicts, self._park)

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        with self._table.changed:
            return {unique: id for unique in uniques if (id := self._table.uniques.get(unique))}

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        with self._table.changed:
            lost = []
            for lease in leases:
                entry = self._table.held(lease)
                if entry is None:
                    lost.append(lease)
                else:
                    entry.expires = self._clock.now() + round(seconds * MICROSECOND)
            return lost

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        table = self._table
        with table.changed:
            now = self._clock.now()
            held = [table.entries[id] for queue in queues for id in table.leased[queue]]
            reaped = []
            for entry in [entry for entry in held if entry.expires <= now]:
                reaped.append(Reaped(entry.message.id, entry.message.queue, entry.suspect))
                entry.crashes += entry.suspect
                entry.suspect = True
                table.go_back(entry, 0, now)
            table.changed.notify_all()
            return reaped

    def close(self) -> None:
        """Nothing to release: the jobs live as long as this object."""

    def _settle(self, verdicts: Sequence[V], apply: Callable[[Entry, V], None]) -> list[Lease]:
        with self._table.changed:
            lost = []
            for verdict in verdicts:
                entry = self._table.held(verdict.lease)
                if entry is None:
                    lost.append(verdict.lease)
                    continue
                apply(entry, verdict)
                if not isinstance(verdict, Park) and verdict.change is not None:
                    self._store.change([verdict.change])
            self._table.changed.notify_all()
            return lost

    def _end(self, entry: Entry, verdict: Ack | Abandon) -> None:
        self._table.unlease(entry)
        self._table.uniques.pop(entry.message.unique or "", None)
        entry.ended, entry.reason, entry.finished = verdict, verdict.reason, self._clock.now()
        if isinstance(verdict, Abandon):
            entry.charge(verdict.charge, verdict.failure)
            entry.state = "dead"
        else:
            entry.state = verdict.state

    def _return(self, entry: Entry, verdict: Nack) -> None:
        now = self._clock.now()
        entry.charge(verdict.charge, verdict.failure)
        entry.suspect = verdict.charge == "suspect"
        self._table.go_back(entry, now + round(verdict.delay * MICROSECOND), now)

    def _park(self, entry: Entry, verdict: Park) -> None:
        if self._table.unlease(entry):
            self._table.cancel(entry)
        elif self._store.wait_for(verdict.key):
            self._table.park(entry, verdict.key, verdict.reason)
        else:
            self._table.wait_until(entry, 0, self._clock.now())


def open_url(parts: SplitResult, clock: Clock) -> MemoryBackend:
    """For `memory://`; every app gets a memory of its own."""
    options(parts, known={})
    return MemoryBackend(clock)
