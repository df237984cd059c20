"""The guard holder: takes the guards of jobs before they start, renews them while they run, settles them with the job.

A batch of jobs costs one call of the store; jobs without guards cost none. It also says which queues may be leased
from now: not those that are paused, nor those whose rate is used up, and none while the worker drains.

Where the backend is the store, the change to the guards is part of the step that settles the job. Elsewhere the order
is run, mark, ack: a job that finds its own mark only has to be acked.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park, Verdict
from tenure.backends.parts import Parking
from tenure.clock import MICROSECOND
from tenure.errors import BackendError, Unstorable
from tenure.execution.attempt import Attempt
from tenure.guards.guard import (
    Ending,
    Guard,
    Refusal,
    forget_keys,
    read_pauses,
    renew_drain,
    renew_guards,
    settle_guards,
    take_guards,
)
from tenure.guards.states import WAKE_ALL, Holder, Paused, drain_key, queue_rate_key, unpack
from tenure.guards.store import Change, Store
from tenure.worker.backend_breaker import BackendBreaker, SharedBreaker
from tenure.worker.guard_rules import GuardRules
from tenure.worker.inbox import give_up_after
from tenure.worker.roles import OutageLog

logger = logging.getLogger(__name__)

SKIPPED = "skipped-idempotent"  # the reason of a job whose idempotency key was done before

PAUSE_POLL_SECONDS = 1.0
_DRAIN_RENEWAL_SECONDS = 3600.0  # far less than the time after which the store forgets a drain
_MIN_DELAY, _MAX_DELAY = 0.1, 30.0  # of a job that waits for a guard
_STORE_DOWN_DELAY = 2.0
_WAKE_BATCH = 100  # keys per call
_UNLIMITED = 1 << 31

LeaseKey = tuple[str, int]
Room = list[tuple[list[str], int]]  # queues to lease from together, and how many jobs of them may start now


@dataclass(slots=True)
class HeldGuards:
    """The guards that a job took under a lease; `renewed_at` is the moment before they were taken or renewed."""

    lease: Lease
    guards: tuple[Guard, ...]
    renewed_at: float


class GuardHolder:
    """Shared by the lanes of a worker. `has_guarded_jobs` becomes true with the first job that has a guard."""

    def __init__(
        self,
        store: Store,
        rules: "GuardRules | None" = None,
        seconds: float = 15.0,
        *,
        is_backend: bool = False,
        parking: Parking | None = None,
        place: str | None = None,
    ) -> None:
        """A guard is held for `seconds` unless it is renewed: as long as a lease.

        `place` is the name of the backend if the store is another one: then the store holds a breaker around the
        backend that all workers share.
        """
        self._store = store
        self._is_one_step = is_backend
        self._parking = parking
        self._place = place
        self._rules = rules or GuardRules()
        self._seconds = seconds
        self.outage = OutageLog()
        self._held: dict[LeaseKey, HeldGuards] = {}
        self._wake_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._pauses = PauseReader(store, self.outage)
        self._next_full_wake = 0.0
        self.worker: str | None = None  # the id of the worker that leases, set when there is one
        self.has_guarded_jobs = False

    def backend_breaker(self) -> BackendBreaker:
        """A breaker around the backend, with the same threshold and cooldown as the breakers of jobs."""
        shared = self._place and SharedBreaker(self._store, self._rules.backend_breaker(self._place), self._seconds)
        return BackendBreaker(self._rules.threshold, self._rules.cooldown, shared or None)

    def room(self, queues: list[str]) -> tuple[Room, float]:
        """The queues that are neither paused nor out of tokens, in portions, each with how many jobs may start now.

        If there are none: also the seconds until one has tokens again, infinite when all are paused or the worker
        drains.
        """
        queues = self._pauses.filter_out(queues, self.worker)
        if not queues:
            return [], float("inf")
        limited = {queue: limit for queue in queues if (limit := self._rules.queue_rate(queue))}
        if not limited:
            return [(queues, _UNLIMITED)], 0.0
        now, states = self._store.read([limit.key for limit in limited.values()])
        room: Room = []
        waits = []
        for queue in queues:
            if queue not in limited:
                if not room or room[-1][0][-1] in limited:
                    room.append(([], _UNLIMITED))
                room[-1][0].append(queue)
                continue
            limit, state = limited[queue], unpack(states.get(limited[queue].key))
            if tokens := limit.tokens(state, now):
                room.append(([queue], tokens))
            else:
                waits.append(limit.bucket(state, now).next_at() - now)
        return room, min(waits, default=0) / MICROSECOND

    def drain(self) -> Paused | None:
        """Since when and why this worker drains; None if it does not. It keeps the drain from expiring."""
        return None if self.worker is None else self._pauses.drain_of(self.worker)

    def forget_drain(self) -> None:
        """The worker has ended: what the store has of its drain means nothing any more."""
        if self.worker is not None and read_pauses(self._store, (), [self.worker]).workers:
            self._store.change([forget_keys(drain_key(self.worker))])

    def admit(self, attempts: list[Attempt], now: int) -> tuple[list[Attempt], list[Verdict]]:
        """The attempts that hold all their guards, and the verdicts on the others."""
        guarded = [(attempt, guards) for attempt in attempts if (guards := self._rules.guards_of(attempt.envelope))]
        if not guarded:
            return attempts, []
        self.has_guarded_jobs = True
        changes = [take_guards(guards, self._holder(attempt.ticket)) for attempt, guards in guarded]
        asked = time.monotonic()
        try:
            refusals = self._store.change(changes)
        except Unstorable:
            raise
        except BackendError as error:
            self.outage.failed(logger, f"taking the guards of {len(guarded)} jobs", error)
            verdicts: dict[LeaseKey, Verdict] = {_key(one.ticket): _put_off(one.ticket, error) for one, _ in guarded}
        else:
            self._held.update(
                {
                    _key(one.ticket): HeldGuards(one.ticket, guards, asked)
                    for (one, guards), no in zip(guarded, refusals, strict=True)
                    if no is None
                }
            )
            verdicts = {
                _key(one.ticket): self.refuse(one.ticket, no, now)
                for (one, _), no in zip(guarded, refusals, strict=True)
                if no is not None
            }
        return [one for one in attempts if _key(one.ticket) not in verdicts], list(verdicts.values())

    def refuse(self, lease: Lease, refusal: Refusal, now: int) -> Verdict:
        """The verdict on a job whose guard refused it, before it started or while it ran."""
        if refusal.reason == "done":
            own = refusal.first == lease.id
            return Ack(lease=lease, reason=None if own else f"{SKIPPED}: job {refusal.first} has done it")
        wait = min(_MAX_DELAY, max(_MIN_DELAY, (refusal.until - now) / MICROSECOND))
        if self._parking is None:
            delay = wait * (0.5 + random.random())  # noqa: S311 - jitter
            return Nack(lease=lease, delay=delay, reason=refusal.reason, inconclusive=True)
        with self._lock:
            self._wake_at[refusal.key] = min(self._wake_at.get(refusal.key, float("inf")), time.monotonic() + wait)
        return Park(lease=lease, key=refusal.key, reason=refusal.reason)

    def renew(self, leases: Sequence[Lease]) -> list[Lease]:
        """Renew the guards of these jobs; returns the leases that have lost a guard and must stop."""
        held = [entry for lease in leases if (entry := self._held.get(_key(lease)))]
        if not held:
            return []
        asked = time.monotonic()
        answers = self._store.change([renew_guards(entry.guards, self._holder(entry.lease)) for entry in held])
        for entry in held:
            if _key(entry.lease) in self._held:  # not settled meanwhile
                entry.renewed_at = asked
        return [entry.lease for entry, is_held in zip(held, answers, strict=True) if not is_held]

    def overdue(self, now: float) -> list[Lease]:
        """The leases whose guards were not renewed in time: other jobs may take the guards soon.

        Where the backend is the store, no job takes a guard from a job whose lease is held.
        """
        if self._is_one_step or not self._held:
            return []
        oldest = now - give_up_after(self._seconds)
        return [entry.lease for entry in list(self._held.values()) if entry.renewed_at <= oldest]

    def drop(self, leases: Sequence[Lease]) -> None:
        """The jobs of these leases were lost before they ended, and their guards with them.

        The guards of a job that has ended stay: its settlement may still be accepted, and changes them then.
        """
        for lease in leases:
            self._held.pop(_key(lease), None)

    def attach(self, verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
        """The verdicts, each with the change to the guards of its job; those guards are then no longer held."""
        return [self._attached(verdict) for verdict in verdicts] if self._held else verdicts

    def mark(self, verdicts: Sequence[Verdict]) -> list[Lease]:
        """Where the store is another one, change it before the backend settles. No lease is lost by that.

        A job that parks gives back its guards before it waits, in either store.
        """
        first = [verdict for verdict in verdicts if isinstance(verdict, Park) or not self._is_one_step]
        if changes := [verdict.change for verdict in first if verdict.change is not None]:
            self._store.change(changes)
        return []

    def wake_parked(self, now: float) -> None:
        """Wake jobs whose key no settlement will free: its holder vanished, its cooldown ended, or a token came."""
        if self._parking is None:
            return
        with self._lock:
            due = [key for key, at in self._wake_at.items() if at <= now][:_WAKE_BATCH]
        if due:
            again = self._parking.wake(due, _WAKE_BATCH)
            with self._lock:
                for key in due:
                    self._wake_at.pop(key, None)
                self._wake_at.update({key: now + wait for key, wait in again.items()})
        if now >= self._next_full_wake:
            self._next_full_wake = now + self._seconds / 3
            self._parking.wake(None, _WAKE_BATCH)

    def wake_now(self, queues: Sequence[str]) -> None:
        """Wake the jobs of these queues that can start now, before a worker that ends when idle ends."""
        self.adopt_rates(queues)
        if self._parking is not None:
            self._parking.wake(None, _WAKE_BATCH)

    def adopt_rates(self, queues: Sequence[str]) -> None:
        """Wake the jobs that wait for a rate of their queue which was lifted or raised in the settings since."""
        if self._parking is None:
            return
        keys = {queue_rate_key(queue): queue for queue in queues}
        waited_for = [keys[key] for key in self._parking.wake(list(keys), 0)]
        limits = [(queue, self._rules.queue_rate(queue)) for queue in waited_for]
        self._store.change(
            [limit.adopt() if limit else forget_keys(queue_rate_key(queue), wake=WAKE_ALL) for queue, limit in limits]
        )

    def _attached(self, verdict: Verdict) -> Verdict:
        held = self._held.pop(_key(verdict.lease), None)
        if held is None:
            return verdict
        change: Change = settle_guards(held.guards, self._holder(verdict.lease), ending_of(verdict))
        return structs.replace(verdict, change=change)

    def _holder(self, lease: Lease) -> Holder:
        if self._is_one_step:
            return Holder(lease.id, lease.fence, self._seconds, lease.queue, lease.owner)
        return Holder(lease.id, lease.fence, self._seconds)


def ending_of(verdict: Verdict) -> Ending:
    """What a verdict means for the guards: only what the handler itself did is a success or a failure."""
    if isinstance(verdict, Park):
        return Ending(over=False)
    if isinstance(verdict, Ack):
        return Ending(over=True, succeeded=True if verdict.state == "done" else None)
    failed = False if verdict.charge in ("attempt", "crash") else None
    if isinstance(verdict, Abandon):
        return Ending(over=True, succeeded=failed)
    return Ending(over=False, succeeded=failed, again=verdict.delay)


def _put_off(lease: Lease, error: BackendError) -> Verdict:
    """A job never runs without its guards: it waits until the store answers."""
    delay = _STORE_DOWN_DELAY * (0.5 + random.random())  # noqa: S311 - jitter
    return Nack(lease=lease, delay=delay, reason=f"no guards: {error}", inconclusive=True)


def _key(lease: Lease) -> LeaseKey:
    return lease.id, lease.fence


class PauseReader:
    """Which queues are paused, and whether a worker drains; read together once a second, so that neither costs a lease.

    Shared by the lanes of a worker; each lane asks for its own queues.
    """

    def __init__(self, store: Store, outage: OutageLog | None = None) -> None:
        self._store = store
        self._outage = outage or OutageLog()
        self._paused: dict[str, bool] = {}
        self._read_at: dict[str, float] = {}
        self._drains: dict[str, Paused] = {}
        self._drain_read_at: dict[str, float] = {}
        self._drain_renew_at: dict[str, float] = {}

    def filter_out(self, queues: list[str], worker: str | None = None) -> list[str]:
        """These queues without the paused ones, none if this worker drains; without an answer, by the last answer."""
        now = time.monotonic()
        if any(self._read_at.get(queue, 0.0) <= now for queue in queues):
            self._read(queues, worker)
            self._read_at.update(dict.fromkeys(queues, now + PAUSE_POLL_SECONDS))
        if worker in self._drains:
            return []
        if not any(map(self._paused.get, queues)):
            return queues
        return [queue for queue in queues if not self._paused.get(queue)]

    def drain_of(self, worker: str) -> Paused | None:
        """Since when and why this worker drains. The leasers do not ask while all of its slots are busy."""
        now = time.monotonic()
        if self._drain_read_at.get(worker, 0.0) <= now:
            self._read([], worker)
        if worker in self._drains and self._drain_renew_at.get(worker, 0.0) <= now:
            self._renew(worker, now)
        return self._drains.get(worker)

    def _read(self, queues: Sequence[str], worker: str | None) -> None:
        try:
            paused, drains = read_pauses(self._store, queues, [] if worker is None else [worker])
        except BackendError as error:
            self._outage.failed(logger, "reading which queues are paused (the last known state stays)", error)
            return
        for queue in queues:
            if (queue in paused) != self._paused.get(queue, False):
                logger.info("queue %r is %s", queue, "paused" if queue in paused else "resumed")
            self._paused[queue] = queue in paused
        if worker is not None:
            self._note_drain(worker, drains.get(worker))
            self._drain_read_at[worker] = time.monotonic() + PAUSE_POLL_SECONDS

    def _note_drain(self, worker: str, drain: Paused | None) -> None:
        if (drain is None) == (worker in self._drains):
            logger.info("worker %s %s", worker, "leases again" if drain is None else "drains: it leases no more jobs")
        if drain is None:
            self._drains.pop(worker, None)
        else:
            self._drains[worker] = drain

    def _renew(self, worker: str, now: float) -> None:
        try:
            self._store.change([renew_drain(worker)])
        except BackendError as error:
            self._outage.failed(logger, "renewing the drain of this worker", error)
        else:
            self._drain_renew_at[worker] = now + _DRAIN_RENEWAL_SECONDS
