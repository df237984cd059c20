"""JobTable: the jobs in memory, and how each moves from waiting to a lease, back, or to its end."""

import heapq
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tenure.backends.ends import Wakeup
from tenure.backends.messages import ON_REQUEST, SUSPECT, Abandon, Ack, Charge, Lease, Message, suspects_key
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND, Clock
from tenure.definition.context import Progress
from tenure.definition.failure import KEPT_FAILURES, Failure
from tenure.events import ENDED_WELL
from tenure.guards.states import Hold

WAITING_STATES = ("ready", "delayed", "parked")


class JobEntry:
    """A job; `place` orders ready jobs: by priority, then by enqueue."""

    def __init__(self, message: Message, key: int, now: int, due: int) -> None:
        self.message = message
        self.key = key
        self.enqueued = now
        self.due = due
        self.place = (-message.priority, key)
        self.state = "ready"
        self.attempts = self.crashes = self.fence = 0
        self.vanished = 0
        self.expires = 0
        self.progress: Progress | None = None
        self.ended: Ack | Abandon | None = None
        self.reason: str | None = None
        self.waits_for: str | None = None
        self.finished: int | None = None
        self.failures: list[Failure] = []

    def charge(self, charge: Charge | None, failure: Failure | None) -> None:
        self.attempts += charge == "attempt"
        self.crashes += charge == "crash"
        if failure is not None:
            self.failures = [*self.failures, failure][-KEPT_FAILURES:]

    def record(self, owner: str, cancel_asked: bool = False) -> JobRecord:
        leased, ended = self.state == "leased", self.ended
        return JobRecord(
            id=self.message.id,
            queue=self.message.queue,
            handler=self.message.handler,
            name=self.message.name,
            state=self.state,
            priority=self.message.priority,
            attempts=self.attempts,
            crashes=self.crashes,
            fence=self.fence,
            enqueued_at=self.enqueued,
            due_at=self.expires if self.state == "delayed" else self.due,
            finished_at=self.finished,
            owner=owner if leased or ended else None,
            lease_until=self.expires if leased else None,
            seconds=ended.seconds if isinstance(ended, Ack) else None,
            reason=self.reason,
            output=ended.output if isinstance(ended, Ack) else None,
            failures=tuple(self.failures),
            run=ended.run if isinstance(ended, Ack) else None,
            body=self.message.body if self.state not in ENDED_WELL else None,
            progress=self.progress,
            cancel_asked=cancel_asked,
            waits_for=self.waits_for,
            tags=self.message.tags,
        )


class JobTable:
    """All jobs; the caller holds `changed`, and notifies it when there may be more to lease."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.owner = secrets.token_hex(8)
        self.changed = threading.Condition()
        self.entries: dict[str, JobEntry] = {}
        self.uniques: dict[str, str] = {}
        self.asked: set[str] = set()
        self.end_watchers: set[Wakeup] = set()
        self.ends_told = 0
        self.leased: dict[str, set[str]] = defaultdict(set)
        self._ready: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        self._delayed: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self._parked: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        self._sequence = 0

    def add(self, message: Message, now: int, due: int) -> JobEntry:
        entry = self.entries[message.id] = JobEntry(message, self.next_key(), now, due)
        return entry

    def next_key(self) -> int:
        self._sequence += 1
        return self._sequence

    def take(self, queues: Sequence[str], limit: int, seconds: float) -> list[Lease]:
        """Grant leases in order."""
        now = self.clock.now()
        leases: list[Lease] = []
        for queue in queues:
            if len(leases) >= limit:
                break
            self._promote(queue, now)
            ready = self._ready[queue]
            while ready and len(leases) < limit:
                entry = self.entries[heapq.heappop(ready)[1]]
                leases.append(self._grant(entry, now + round(seconds * MICROSECOND)))
        return leases

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return any(self._parked[suspects_key(queue)] for queue in queues)

    def take_suspect(self, queues: Sequence[str], seconds: float) -> list[Lease]:
        """Grant one suspect of these queues, if there is one."""
        for queue in queues:
            if suspects := self._parked[suspects_key(queue)]:
                entry = self.entries[heapq.heappop(suspects)[1]]
                entry.waits_for = None
                return [self._grant(entry, self.clock.now() + round(seconds * MICROSECOND))]
        return []

    def until_due(self, queues: Sequence[str]) -> float:
        dues = [self._delayed[queue][0][0] for queue in queues if self._delayed[queue]]
        return max(0.0, (min(dues) - self.clock.now()) / MICROSECOND) if dues else 60.0

    def held(self, lease: Lease) -> JobEntry | None:
        entry = self.entries.get(lease.id)
        if entry is None or entry.state != "leased" or entry.fence != lease.fence or lease.owner != self.owner:
            return None
        return entry

    def is_leased(self, hold: Hold) -> bool:
        """Whether the lease under which a job took a guard is still held."""
        entry = self.entries.get(hold.id)
        return entry is not None and hold.id in self.leased[entry.message.queue] and entry.fence == hold.fence

    def wait_until(self, entry: JobEntry, due: int, now: int) -> None:
        """Make a job ready, or delayed until `due`; its place in the order stays. A suspect waits apart."""
        queue, id = entry.message.queue, entry.message.id
        if due > now:
            entry.state, entry.expires = "delayed", due
            heapq.heappush(self._delayed[queue], (due, entry.key, id))
        elif entry.vanished == SUSPECT:
            self.park(entry, suspects_key(queue), None)
        else:
            entry.state = "ready"
            heapq.heappush(self._ready[queue], (entry.place, id))

    def stop_waiting(self, entry: JobEntry) -> None:
        _remove(entry.message.id, self._parked[entry.waits_for or ""])
        _remove(entry.message.id, self._ready[entry.message.queue])
        _remove(entry.message.id, self._delayed[entry.message.queue])

    def unlease(self, entry: JobEntry) -> bool:
        """End the lease of a job; return whether a user cancelled the job."""
        id = entry.message.id
        asked = id in self.asked
        self.asked.discard(id)
        self.leased[entry.message.queue].discard(id)
        entry.progress = None
        return asked

    def go_back(self, entry: JobEntry, due: int, now: int) -> None:
        """Return a leased job to its place, or end it if a user cancelled it."""
        if self.unlease(entry):
            self.cancel(entry)
        else:
            self.wait_until(entry, due, now)

    def cancel(self, entry: JobEntry) -> None:
        self.uniques.pop(entry.message.unique or "", None)
        entry.waits_for = None
        entry.state, entry.reason, entry.finished = "cancelled", ON_REQUEST, self.clock.now()

    def tell_ends(self) -> None:
        """Jobs may have ended, or be gone."""
        self.ends_told += 1
        for wakeup in self.end_watchers:
            wakeup.set()

    def park(self, entry: JobEntry, key: str, reason: str | None) -> None:
        entry.state, entry.waits_for, entry.reason = "parked", key, reason
        heapq.heappush(self._parked[key], (entry.place, entry.message.id))

    def waiters(self, keys: Sequence[str], limit: int) -> dict[str, dict[str, int]]:
        """How many of the first jobs parked under each of these keys are of each queue."""
        with self.changed:
            firsts = {key: heapq.nsmallest(limit, self._parked[key]) for key in keys if self._parked.get(key)}
            return {
                key: dict(Counter(self.entries[id].message.queue for _, id in first)) for key, first in firsts.items()
            }

    def wake(self, key: str, count: int) -> int:
        """Make the first waiters of a key ready again; return how many there were."""
        heads = [heapq.heappop(self._parked[key]) for _ in range(min(count, len(self._parked[key])))]
        for _, id in heads:
            entry = self.entries[id]
            entry.waits_for = entry.reason = None
            self.wait_until(entry, 0, self.clock.now())
        if heads:
            self.changed.notify_all()
        return len(heads)

    def _promote(self, queue: str, now: int) -> None:
        delayed = self._delayed[queue]
        while delayed and delayed[0][0] <= now:
            self.wait_until(self.entries[heapq.heappop(delayed)[2]], 0, now)

    def _grant(self, entry: JobEntry, expires: int) -> Lease:
        entry.state, entry.expires = "leased", expires
        entry.fence += 1
        message = entry.message
        self.leased[message.queue].add(message.id)
        return Lease(
            id=message.id,
            queue=message.queue,
            body=message.body,
            owner=self.owner,
            fence=entry.fence,
            attempts=entry.attempts,
            crashes=entry.crashes,
            vanished=entry.vanished,
            priority=message.priority,
            due=entry.due,
            token=entry.key,
        )


def _remove(id: str, heap: list[Any]) -> None:
    heap[:] = [item for item in heap if item[-1] != id]
    heapq.heapify(heap)
