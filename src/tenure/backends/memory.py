"""The reference backend: everything in this process, gone when it ends.

A lease is taken under one lock, lost when it expires and is reaped; `abandon` keeps the bytes.
Order is strict: priority, then enqueue. Nothing survives the process, and no other process sees it.
"""

import heapq
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import SplitResult

from tenure.backends.contract import (
    HEAD,
    ON_REQUEST,
    STATES,
    Abandon,
    Ack,
    Burial,
    Charge,
    Fate,
    JobRecord,
    Lease,
    Message,
    Nack,
    Park,
    Reaped,
    Turn,
    WorkerRecord,
)
from tenure.backends.memory_chronicle import MemoryChronicle
from tenure.backends.memory_ledger import MemoryLedger
from tenure.backends.memory_listing import page_of
from tenure.backends.memory_statistics import MemoryStatistics
from tenure.backends.opening import options
from tenure.clock import MICROSECOND, Clock, SystemClock
from tenure.definition.failure import Failure
from tenure.definition.progress import Progress
from tenure.guards.memory import MemoryStore

MAX_FAILURES = 25
_WAITING = ("ready", "delayed", "parked")
V = TypeVar("V", Ack, Nack, Abandon, Park)


class _Entry:
    """One job and everything that changes about it."""

    def __init__(self, message: Message, key: int, now: int, due: int) -> None:
        self.message = message
        self.key = key
        self.enqueued = now
        self.due = due
        self.place = (-message.priority, key)
        self.state = "ready"
        self.attempts = self.crashes = self.fence = 0
        self.suspect = False
        self.expires = 0
        self.progress: Progress | None = None
        self.ended: Ack | Abandon | None = None
        self.reason: str | None = None
        self.waits_for: str | None = None
        self.finished: int | None = None
        self.failures: list[Failure] = []


class MemoryBackend:
    """Every verb of the contract and every optional protocol, on dictionaries and heaps."""

    in_process: Literal[True] = True

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._owner = secrets.token_hex(8)
        self._changed = threading.Condition()
        self._entries: dict[str, _Entry] = {}
        self._ready: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        self._delayed: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self._leased: dict[str, set[str]] = defaultdict(set)
        self._asked: set[str] = set()
        self._workers: dict[str, tuple[int, WorkerRecord]] = {}
        self._sequence = 0
        self._parked: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        self._uniques: dict[str, str] = {}
        statistics = MemoryStatistics()
        self.note_tallies, self.tallies = statistics.note_tallies, statistics.tallies
        self.fold_tallies, self.drop_tallies = statistics.fold_tallies, statistics.drop_tallies
        self._store = store = MemoryStore(self._clock, self._changed, self._wake)
        self.change, self.look, self.sweep, self.rouse = store.change, store.look, store.sweep, store.rouse
        self.ledger = MemoryLedger(self._clock, self._changed, self.put)
        self.chronicle = MemoryChronicle()

    def put(self, messages: Sequence[Message]) -> list[str]:
        with self._changed:
            now = self._clock.now()
            fresh = []
            for message in messages:
                if message.id in self._entries or self._holder(message.unique):
                    continue
                if message.unique is not None:
                    self._uniques[message.unique] = message.id
                self._sequence += 1
                due = message.due or now + round(message.delay * MICROSECOND)
                entry = self._entries[message.id] = _Entry(message, self._sequence, now, due)
                self._wait_until(entry, due, now)
                fresh.append(message.id)
            self._changed.notify_all()
            return fresh

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        give_up = (
            time.monotonic() + wait
        )  # the host's time, because a wait is real even when a test's clock stands still
        with self._changed:
            while True:
                leases = self._take(queues, limit, seconds)
                left = give_up - time.monotonic()
                if leases or left <= 0:
                    return leases
                self._changed.wait(min(left, self._until_due(queues)))

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._settle(verdicts, self._end)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._settle(verdicts, self._return)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._settle(verdicts, self._end)

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._settle(verdicts, self._park)

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        with self._changed:
            return {unique: id for unique in uniques if (id := self._holder(unique))}

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        with self._changed:
            lost = []
            for lease in leases:
                entry = self._held(lease)
                if entry is None:
                    lost.append(lease)
                else:
                    entry.expires = self._clock.now() + round(seconds * MICROSECOND)
            return lost

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        with self._changed:
            now = self._clock.now()
            expired = [
                entry
                for queue in queues
                for entry in map(self._entries.__getitem__, self._leased[queue])
                if entry.expires <= now
            ]
            reaped = []
            for entry in expired:
                reaped.append(Reaped(entry.message.id, entry.message.queue, entry.suspect))
                entry.crashes += entry.suspect
                entry.suspect = True
                self._go_back(entry, 0, now)
            self._changed.notify_all()
            return reaped

    def close(self) -> None:
        """Nothing to release: the jobs live as long as this object."""

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        with self._changed:
            found: dict[str, dict[str, int]] = {}
            for entry in self._entries.values():
                if not ended and entry.state in ("done", "cancelled", "expired"):
                    continue
                states = found.setdefault(entry.message.queue, dict.fromkeys(STATES, 0))
                states[entry.state] += 1
            return found

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        with self._changed:
            now = self._clock.now()
            waiting = [
                (entry.fence > 0, entry.due, entry.message.queue)
                for entry in self._entries.values()
                if entry.state == "ready" or (entry.state == "delayed" and entry.due <= now)
            ]
        found: dict[str, float] = {}
        for _, due, queue in sorted(waiting):
            if queue in queues:
                found.setdefault(queue, max(0, now - due) / MICROSECOND)
        return found

    def find(self, id: str) -> JobRecord | None:
        with self._changed:
            entry = self._entries.get(id)
            return None if entry is None else _record(entry, self._owner, id in self._asked)

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        live = ("ready", "delayed", "parked", "leased")
        with self._changed:
            found = sorted(
                (entry.place[-1], entry.message.body[:HEAD]) for entry in self._entries.values() if entry.state in live
            )
        rest = [(place, head) for place, head in found if place > int(cursor or 0)]
        page = rest[:limit]
        return [head for _, head in page], str(page[-1][0]) if len(rest) > limit else None

    def queues_with(self, state: str) -> list[str]:
        with self._changed:
            return sorted({entry.message.queue for entry in self._entries.values() if entry.state == state})

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None
    ) -> tuple[list[JobRecord], str | None]:
        with self._changed:
            entries = [e for e in self._entries.values() if e.state == state and e.message.queue == queue]
            return page_of([(_record(e, self._owner), e.place[-1]) for e in entries], state, limit, cursor)

    def waiting(self) -> list[JobRecord]:
        """Ready and delayed jobs, by queue and then in the order they would run once due; for tests."""
        with self._changed:
            entries = [entry for entry in self._entries.values() if entry.state in ("ready", "delayed")]
            entries.sort(key=lambda entry: (entry.message.queue, entry.place))
            return [_record(entry, self._owner) for entry in entries]

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        with self._changed:
            records = [_record(entry, self._owner) for entry in self._entries.values() if entry.state == "dead"]
        records = [record for record in records if queue in (None, record.queue)]
        records.sort(key=lambda record: (record.finished_at or 0, record.id))
        return [record for record in records if after is None or (record.finished_at or 0, record.id) > after][:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        with self._changed:
            now = self._clock.now()
            entries = sorted(self._dead(ids), key=lambda entry: (entry.enqueued, entry.message.id))
            for entry in entries:
                self._sequence += 1
                entry.place = (-entry.message.priority, self._sequence)
                entry.due = now
                entry.attempts = entry.crashes = 0
                entry.suspect, entry.ended, entry.reason, entry.finished = False, None, None, None
                self._wait_until(entry, 0, now)
            self._changed.notify_all()
            return [entry.message.id for entry in entries]

    def discard(self, ids: Sequence[str]) -> list[str]:
        with self._changed:
            gone = [entry.message.id for entry in self._dead(ids)]
            for id in gone:
                del self._entries[id]
            return gone

    def bury(self, burials: Sequence[Burial]) -> list[str]:
        with self._changed:
            now, fresh = self._clock.now(), []
            for burial in burials:
                if burial.message.id in self._entries:
                    continue
                self._sequence += 1
                entry = self._entries[burial.message.id] = _Entry(burial.message, self._sequence, now, now)
                entry.state, entry.reason, entry.finished = "dead", burial.reason, now
                entry.attempts = burial.attempts
                _charge(entry, None, burial.failure)
                fresh.append(burial.message.id)
            return fresh

    def cancel(self, ids: Sequence[str]) -> dict[str, Fate]:
        with self._changed:
            return {id: self._cancel(self._entries.get(id)) for id in dict.fromkeys(ids)}

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, Turn]:
        with self._changed:
            now = self._clock.now()
            moment = due or now + round(delay * MICROSECOND)
            turns = {id: self._reschedule(self._entries.get(id), moment, now) for id in dict.fromkeys(ids)}
            self._changed.notify_all()
            return turns

    def asked_to_stop(self, leases: Sequence[Lease]) -> list[Lease]:
        with self._changed:
            return [lease for lease in leases if lease.id in self._asked and self._held(lease)] if self._asked else []

    def note_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        with self._changed:
            for lease, progress in items:
                entry = self._held(lease)
                if entry is not None:
                    entry.progress = progress

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        with self._changed:
            ended = [
                id
                for id, entry in self._entries.items()
                if entry.state == state
                and entry.finished is not None
                and entry.finished < before
                and queue in (None, entry.message.queue)
            ]
            for id in ended[:limit]:
                del self._entries[id]
            return len(ended[:limit])

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        with self._changed:
            self._workers[worker.id] = (self._clock.now() + round(seconds * MICROSECOND), worker)

    def part(self, id: str) -> None:
        with self._changed:
            self._workers.pop(id, None)

    def workers(self) -> list[WorkerRecord]:
        with self._changed:
            now = self._clock.now()
            alive = [worker for expires, worker in self._workers.values() if expires > now]
            return sorted(alive, key=lambda worker: worker.started_at)

    def _take(self, queues: Sequence[str], limit: int, seconds: float) -> list[Lease]:
        now = self._clock.now()
        leases: list[Lease] = []
        for queue in queues:
            self._promote(queue, now)
            ready = self._ready[queue]
            while ready and len(leases) < limit:
                entry = self._entries[ready[0][1]]
                if entry.suspect and leases:
                    return leases
                heapq.heappop(ready)
                leases.append(self._grant(entry, now + round(seconds * MICROSECOND)))
                if entry.suspect:
                    return leases
        return leases

    def _grant(self, entry: _Entry, expires: int) -> Lease:
        entry.state, entry.expires = "leased", expires
        entry.fence += 1
        message = entry.message
        self._leased[message.queue].add(message.id)
        return Lease(
            id=message.id,
            queue=message.queue,
            body=message.body,
            owner=self._owner,
            fence=entry.fence,
            attempts=entry.attempts,
            crashes=entry.crashes,
            suspect=entry.suspect,
            priority=message.priority,
            due=entry.due,
            token=entry.key,
        )

    def _promote(self, queue: str, now: int) -> None:
        delayed = self._delayed[queue]
        while delayed and delayed[0][0] <= now:
            self._wait_until(self._entries[heapq.heappop(delayed)[2]], 0, now)

    def _until_due(self, queues: Sequence[str]) -> float:
        dues = [self._delayed[queue][0][0] for queue in queues if self._delayed[queue]]
        return max(0.0, (min(dues) - self._clock.now()) / MICROSECOND) if dues else 60.0

    def _wait_until(self, entry: _Entry, due: int, now: int) -> None:
        """Ready, or delayed when its time has not come; the place in the order stays."""
        queue, id = entry.message.queue, entry.message.id
        if due > now:
            entry.state, entry.expires = "delayed", due
            heapq.heappush(self._delayed[queue], (due, entry.key, id))
        else:
            entry.state = "ready"
            heapq.heappush(self._ready[queue], (entry.place, id))

    def _settle(self, verdicts: Sequence[V], apply: Callable[[_Entry, V], None]) -> list[Lease]:
        with self._changed:
            lost = []
            for verdict in verdicts:
                entry = self._held(verdict.lease)
                if entry is None:
                    lost.append(verdict.lease)
                    continue
                apply(entry, verdict)
                if not isinstance(verdict, Park) and verdict.change is not None:
                    self._store.change([verdict.change])
            self._changed.notify_all()
            return lost

    def _held(self, lease: Lease) -> _Entry | None:
        entry = self._entries.get(lease.id)
        if entry is None or entry.state != "leased" or entry.fence != lease.fence or lease.owner != self._owner:
            return None
        return entry

    def _cancel(self, entry: _Entry | None) -> Fate:
        if entry is None:
            return "unknown"
        if entry.state == "leased":
            self._asked.add(entry.message.id)
            return "asked"
        if entry.state not in _WAITING:
            return "too_late"
        self._stop_waiting(entry)
        self._stop(entry)
        return "cancelled"

    def _reschedule(self, entry: _Entry | None, due: int, now: int) -> Turn:
        if entry is None:
            return "unknown"
        if entry.state not in _WAITING:
            return "running" if entry.state == "leased" else "too_late"
        self._stop_waiting(entry)
        entry.due, entry.waits_for, entry.reason = due, None, None
        self._wait_until(entry, due, now)
        return "rescheduled"

    def _stop_waiting(self, entry: _Entry) -> None:
        _remove(entry.message.id, self._parked[entry.waits_for or ""])
        _remove(entry.message.id, self._ready[entry.message.queue])
        _remove(entry.message.id, self._delayed[entry.message.queue])

    def _stop(self, entry: _Entry) -> None:
        self._uniques.pop(entry.message.unique or "", None)
        entry.waits_for = None
        entry.state, entry.reason, entry.finished = "cancelled", ON_REQUEST, self._clock.now()

    def _unlease(self, entry: _Entry) -> bool:
        """It is held no longer; whether somebody wanted it cancelled."""
        id = entry.message.id
        asked = id in self._asked
        self._asked.discard(id)
        self._leased[entry.message.queue].discard(id)
        entry.progress = None
        return asked

    def _go_back(self, entry: _Entry, due: int, now: int) -> None:
        """From a lease to its place, unless somebody wanted it cancelled."""
        if self._unlease(entry):
            self._stop(entry)
        else:
            self._wait_until(entry, due, now)

    def _park(self, entry: _Entry, verdict: Park) -> None:
        if self._unlease(entry):
            self._stop(entry)
        elif self._store.wait_for(verdict.key):
            entry.state, entry.waits_for, entry.reason = "parked", verdict.key, verdict.reason
            heapq.heappush(self._parked[verdict.key], (entry.place, entry.message.id))
        else:
            self._wait_until(entry, 0, self._clock.now())

    def _wake(self, key: str, count: int) -> int:
        """Heads go back to their place; how many there were."""
        heads = [heapq.heappop(self._parked[key]) for _ in range(min(count, len(self._parked[key])))]
        for _, id in heads:
            entry = self._entries[id]
            entry.waits_for = entry.reason = None
            self._wait_until(entry, 0, self._clock.now())
        if heads:
            self._changed.notify_all()
        return len(heads)

    def _holder(self, unique: str | None) -> str | None:
        """The job that waits or runs with this."""
        return self._uniques.get(unique or "")

    def _dead(self, ids: Iterable[str]) -> list[_Entry]:
        found = [self._entries[id] for id in dict.fromkeys(ids) if id in self._entries]
        return [entry for entry in found if entry.state == "dead"]

    def _end(self, entry: _Entry, verdict: Ack | Abandon) -> None:
        self._unlease(entry)
        self._uniques.pop(entry.message.unique or "", None)
        entry.ended, entry.reason, entry.finished = verdict, verdict.reason, self._clock.now()
        if isinstance(verdict, Abandon):
            _charge(entry, verdict.charge, verdict.failure)
            entry.state = "dead"
        else:
            entry.state = verdict.state

    def _return(self, entry: _Entry, verdict: Nack) -> None:
        now = self._clock.now()
        _charge(entry, verdict.charge, verdict.failure)
        entry.suspect = verdict.charge == "suspect"
        self._go_back(entry, now + round(verdict.delay * MICROSECOND), now)


def _remove(id: str, heap: list[Any]) -> None:
    heap[:] = [item for item in heap if item[-1] != id]
    heapq.heapify(heap)


def _charge(entry: _Entry, charge: Charge | None, failure: Failure | None) -> None:
    entry.attempts += charge == "attempt"
    entry.crashes += charge == "crash"
    if failure is not None:
        entry.failures = [*entry.failures, failure][-MAX_FAILURES:]


def _record(entry: _Entry, owner: str, cancel_asked: bool = False) -> JobRecord:
    leased, ended = entry.state == "leased", entry.ended
    return JobRecord(
        id=entry.message.id,
        queue=entry.message.queue,
        handler=entry.message.handler,
        name=entry.message.name,
        state=entry.state,
        priority=entry.message.priority,
        attempts=entry.attempts,
        crashes=entry.crashes,
        fence=entry.fence,
        enqueued_at=entry.enqueued,
        due_at=entry.expires if entry.state == "delayed" else entry.due,
        finished_at=entry.finished,
        owner=owner if leased or ended else None,
        lease_until=entry.expires if leased else None,
        seconds=ended.seconds if isinstance(ended, Ack) else None,
        reason=entry.reason,
        output=ended.output if isinstance(ended, Ack) else None,
        failures=tuple(entry.failures),
        run=ended.run if isinstance(ended, Ack) else None,
        body=entry.message.body if entry.state not in ("done", "cancelled", "expired") else None,
        progress=entry.progress,
        cancel_asked=cancel_asked,
        waits_for=entry.waits_for,
    )


def open_url(parts: SplitResult, clock: Clock) -> MemoryBackend:
    """For `memory://`; every app gets a memory of its own."""
    options(parts, known={})
    return MemoryBackend(clock)
