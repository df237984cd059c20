"""MemoryBackend: every verb of the contract and nearly every part, on dictionaries and heaps.

A lease is granted under one lock, and lost when it expires and is reaped; `abandon` keeps the bytes.
Order is strict: priority, then enqueue. Nothing survives the process, and no other process sees it.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import SplitResult

from tenure.backends.contract import Backend
from tenure.backends.memory.archive import MemoryArchive
from tenure.backends.memory.audit import MemoryAuditLog
from tenure.backends.memory.jobs import (
    MemoryControl,
    MemoryDeadLetters,
    MemoryEnds,
    MemoryJobs,
    MemoryQueueCounts,
    MemoryRecentJobs,
)
from tenure.backends.memory.ledger import MemoryLedger
from tenure.backends.memory.table import JobEntry, JobTable
from tenure.backends.memory.workers import MemoryStats, MemoryWorkers
from tenure.backends.messages import (
    DEFAULT_SUSPECT_AFTER,
    SUSPECT,
    Abandon,
    Ack,
    Lease,
    Message,
    Nack,
    Park,
    ReapedLease,
    vanished_after,
    vanished_after_expiry,
)
from tenure.backends.url import options
from tenure.clock import MICROSECOND, Clock, SystemClock
from tenure.definition.failure import from_expiry
from tenure.guards.store import MemoryStore

V = TypeVar("V", Ack, Nack, Abandon, Park)


class MemoryBackend(Backend):
    """The verbs; the parts work on the same table."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._table = table = JobTable(self._clock)
        self._store = MemoryStore(self._clock, table.changed, table.wake, table.is_leased)
        self.in_process = True
        self.jobs: MemoryJobs = MemoryJobs(table)
        self.recent = MemoryRecentJobs(table)
        self.queues = MemoryQueueCounts(table)
        self.dead_letters = MemoryDeadLetters(table)
        self.control = MemoryControl(table)
        self.ends = MemoryEnds(table)
        self.workers = MemoryWorkers(table)
        self.stats = MemoryStats()
        self.guards = self._store
        self.parking = MemoryParking(self._store, self._park_all, table)
        self.unique = MemoryUniqueJobs(table)
        self.ledger = MemoryLedger(self._clock, table.changed, self.put)
        self.archive = MemoryArchive()
        self.audit = MemoryAuditLog()

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
        give_up = time.monotonic() + wait  # the host's time: the wait is real even if a test's clock stands still
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

    def _park_all(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle(verdicts, self._park)

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

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        table = self._table
        with table.changed:
            now = self._clock.now()
            held = [table.entries[id] for queue in queues for id in table.leased[queue]]
            reaped = []
            for entry in [entry for entry in held if entry.expires <= now]:
                crashed = entry.vanished == SUSPECT
                reaped.append(ReapedLease(entry.message.id, entry.message.queue, crashed))
                entry.crashes += crashed
                entry.charge(None, from_expiry(now, entry.attempts + 1, crashed=crashed))
                entry.vanished = vanished_after_expiry(entry.vanished, suspect_after)
                table.go_back(entry, 0, now)
            table.changed.notify_all()
            table.tell_ends()
            return reaped

    def has_suspects(self, queues: Sequence[str]) -> bool:
        with self._table.changed:
            return self._table.has_suspects(queues)

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        with self._table.changed:
            return self._table.take_suspect(queues, seconds)

    def close(self) -> None:
        """Nothing to release: the jobs live as long as this object."""

    def _settle(self, verdicts: Sequence[V], apply: Callable[[JobEntry, V], None]) -> list[Lease]:
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
            self._table.tell_ends()
            return lost

    def _end(self, entry: JobEntry, verdict: Ack | Abandon) -> None:
        self._table.unlease(entry)
        self._table.uniques.pop(entry.message.unique or "", None)
        entry.ended, entry.reason, entry.finished = verdict, verdict.reason, self._clock.now()
        if isinstance(verdict, Abandon):
            entry.charge(verdict.charge, verdict.failure)
            entry.state = "dead"
        else:
            entry.state = verdict.state

    def _return(self, entry: JobEntry, verdict: Nack) -> None:
        now = self._clock.now()
        entry.charge(verdict.charge, verdict.failure)
        entry.vanished = vanished_after(verdict)
        self._table.go_back(entry, now + round(verdict.delay * MICROSECOND), now)

    def _park(self, entry: JobEntry, verdict: Park) -> None:
        if self._table.unlease(entry):
            self._table.cancel(entry)
        elif self._store.wait_for(verdict.key):
            self._table.park(entry, verdict.key, verdict.reason)
        else:
            self._table.wait_until(entry, 0, self._clock.now())


class MemoryParking:
    def __init__(self, store: MemoryStore, park: Callable[[Sequence[Park]], list[Lease]], table: JobTable) -> None:
        self._store = store
        self._park = park
        self.waiters = table.waiters

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._park(verdicts)

    def wake(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        return self._store.rouse(keys, limit)


class MemoryUniqueJobs:
    def __init__(self, table: JobTable) -> None:
        self._table = table

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        with self._table.changed:
            return {unique: id for unique in uniques if (id := self._table.uniques.get(unique))}


def open_url(parts: SplitResult, clock: Clock) -> MemoryBackend:
    """Opens `memory://`; every app gets its own memory."""
    options(parts, known={})
    return MemoryBackend(clock)
