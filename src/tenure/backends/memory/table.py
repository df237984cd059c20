"""Table: the jobs in memory, and how each goes from waiting to a lease, back, or to its end."""

import heapq
import secrets
import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tenure.backends.contract import ON_REQUEST, Lease, Message
from tenure.backends.memory.entry import Entry
from tenure.clock import MICROSECOND, Clock


class Table:
    """Whoever calls holds `changed`, and notifies it when there may be more to lease."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.owner = secrets.token_hex(8)
        self.changed = threading.Condition()
        self.entries: dict[str, Entry] = {}
        self.uniques: dict[str, str] = {}
        self.asked: set[str] = set()
        self.leased: dict[str, set[str]] = defaultdict(set)
        self._ready: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        self._delayed: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self._parked: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        self._sequence = 0

    def add(self, message: Message, now: int, due: int) -> Entry:
        entry = self.entries[message.id] = Entry(message, self.next_key(), now, due)
        return entry

    def next_key(self) -> int:
        self._sequence += 1
        return self._sequence

    def take(self, queues: Sequence[str], limit: int, seconds: float) -> list[Lease]:
        """Leases in order; a suspect is alone."""
        now = self.clock.now()
        leases: list[Lease] = []
        for queue in queues:
            self._promote(queue, now)
            ready = self._ready[queue]
            while ready and len(leases) < limit:
                entry = self.entries[ready[0][1]]
                if entry.suspect and leases:
                    return leases
                heapq.heappop(ready)
                leases.append(self._grant(entry, now + round(seconds * MICROSECOND)))
                if entry.suspect:
                    return leases
        return leases

    def until_due(self, queues: Sequence[str]) -> float:
        dues = [self._delayed[queue][0][0] for queue in queues if self._delayed[queue]]
        return max(0.0, (min(dues) - self.clock.now()) / MICROSECOND) if dues else 60.0

    def held(self, lease: Lease) -> Entry | None:
        entry = self.entries.get(lease.id)
        if entry is None or entry.state != "leased" or entry.fence != lease.fence or lease.owner != self.owner:
            return None
        return entry

    def wait_until(self, entry: Entry, due: int, now: int) -> None:
        """Ready, or delayed when its time has not come; the place in the order stays."""
        queue, id = entry.message.queue, entry.message.id
        if due > now:
            entry.state, entry.expires = "delayed", due
            heapq.heappush(self._delayed[queue], (due, entry.key, id))
        else:
            entry.state = "ready"
            heapq.heappush(self._ready[queue], (entry.place, id))

    def stop_waiting(self, entry: Entry) -> None:
        _remove(entry.message.id, self._parked[entry.waits_for or ""])
        _remove(entry.message.id, self._ready[entry.message.queue])
        _remove(entry.message.id, self._delayed[entry.message.queue])

    def unlease(self, entry: Entry) -> bool:
        """It is held no longer; whether somebody wanted it cancelled."""
        id = entry.message.id
        asked = id in self.asked
        self.asked.discard(id)
        self.leased[entry.message.queue].discard(id)
        entry.progress = None
        return asked

    def go_back(self, entry: Entry, due: int, now: int) -> None:
        """From a lease to its place, unless somebody wanted it cancelled."""
        if self.unlease(entry):
            self.cancel(entry)
        else:
            self.wait_until(entry, due, now)

    def cancel(self, entry: Entry) -> None:
        self.uniques.pop(entry.message.unique or "", None)
        entry.waits_for = None
        entry.state, entry.reason, entry.finished = "cancelled", ON_REQUEST, self.clock.now()

    def park(self, entry: Entry, key: str, reason: str | None) -> None:
        entry.state, entry.waits_for, entry.reason = "parked", key, reason
        heapq.heappush(self._parked[key], (entry.place, entry.message.id))

    def wake(self, key: str, count: int) -> int:
        """Heads go back to their place; how many there were."""
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

    def _grant(self, entry: Entry, expires: int) -> Lease:
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
            suspect=entry.suspect,
            priority=message.priority,
            due=entry.due,
            token=entry.key,
        )


def _remove(id: str, heap: list[Any]) -> None:
    heap[:] = [item for item in heap if item[-1] != id]
    heapq.heapify(heap)
