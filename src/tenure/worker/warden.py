"""The warden: takes the guards of jobs before they start, keeps them while they run, and settles them with the job.

One call of the store for a whole batch, and none for jobs without guards.
Where the backend is the store, what the end of a job changes is part of the step that ends it;
elsewhere it is marked first: run, mark, ack, so that a job which finds its own mark has only to be acked.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence

from msgspec import structs

from tenure.backends.contract import Abandon, Ack, Lease, Nack, Park, Parking, Verdict
from tenure.clock import MICROSECOND
from tenure.errors import BackendError
from tenure.execution.attempt import Attempt
from tenure.guards.changes import renewing, settling, taking
from tenure.guards.guard import Ending, Guard, Refusal
from tenure.guards.states import Holder, unpack
from tenure.guards.store import Change, Store
from tenure.worker.fleet import Fleet
from tenure.worker.gate import Gate
from tenure.worker.outage import Outage
from tenure.worker.rules import Rules
from tenure.worker.verdict import SKIPPED

logger = logging.getLogger(__name__)

_SOONEST, _LATEST = 0.1, 30.0  # how long a job is put off where it cannot be parked
_STORE_IS_DOWN = 2.0
_KEYS = 100  # roused at a time

Pair = tuple[str, int]
Room = list[tuple[list[str], int]]


class Warden:
    """Shared by the lanes of a worker."""

    def __init__(
        self,
        store: Store,
        rules: Rules | None = None,
        seconds: float = 15.0,
        *,
        is_backend: bool = False,
        parking: Parking | None = None,
        place: str | None = None,
    ) -> None:
        """`seconds` is how long a guard is held unless renewed: as long as a lease.

        `place` names the backend, where the store is another one and so can tell the fleet of its outages.
        """
        self._store = store
        self._is_one_step = is_backend
        self._parking = parking
        self._place = place
        self._rules = rules or Rules()
        self._seconds = seconds
        self._held: dict[Pair, tuple[Guard, ...]] = {}
        self._wakes: dict[str, float] = {}
        self._lock = threading.Lock()
        self._gate = Gate(store)
        self._look_at = 0.0
        self.is_asked = False

    def outage(self) -> Outage:
        """A breaker around the backend, by the same rules."""
        fleet = self._place and Fleet(self._store, self._rules.backend_breaker(self._place), self._seconds)
        return Outage(self._rules.threshold, self._rules.cooldown, fleet or None)

    def admit(self, attempts: list[Attempt], now: int) -> tuple[list[Attempt], list[Verdict]]:
        """The attempts that hold all their guards, and the verdicts on the others."""
        guarded = [(attempt, guards) for attempt in attempts if (guards := self._rules.guards_of(attempt.envelope))]
        if not guarded:
            return attempts, []
        self.is_asked = True
        changes = [taking(guards, self._holder(attempt.ticket)) for attempt, guards in guarded]
        try:
            refusals = self._store.change(changes)
        except BackendError as error:
            logger.warning("the guards of %d jobs cannot be taken, they wait: %s", len(guarded), error)
            verdicts: dict[Pair, Verdict] = {_pair(one.ticket): _put_off(one.ticket, error) for one, _ in guarded}
        else:
            self._held.update(
                {_pair(one.ticket): guards for (one, guards), no in zip(guarded, refusals, strict=True) if no is None}
            )
            verdicts = {
                _pair(one.ticket): self.refuse(one.ticket, no, now)
                for (one, _), no in zip(guarded, refusals, strict=True)
                if no is not None
            }
        return [one for one in attempts if _pair(one.ticket) not in verdicts], list(verdicts.values())

    def refuse(self, lease: Lease, refusal: Refusal, now: int) -> Verdict:
        """What follows when a guard says no, to a job that would start or to one that has met it while it ran."""
        if refusal.reason == "done":
            own = refusal.first == lease.id
            return Ack(lease=lease, reason=None if own else f"{SKIPPED}: job {refusal.first} has done it")
        wait = min(_LATEST, max(_SOONEST, (refusal.until - now) / MICROSECOND))
        if self._parking is None:
            return Nack(lease=lease, delay=wait * (0.5 + random.random()), reason=refusal.reason)  # noqa: S311
        with self._lock:
            self._wakes[refusal.key] = min(self._wakes.get(refusal.key, float("inf")), time.monotonic() + wait)
        return Park(lease=lease, key=refusal.key, reason=refusal.reason)

    def attach(self, verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
        """The verdicts, each with what it changes besides; nothing is held for them any more."""
        return [self._attached(verdict) for verdict in verdicts] if self._held else verdicts

    def mark(self, verdicts: Sequence[Verdict]) -> list[Lease]:
        """Where the store is another one, change it before the backend is told; no lease is lost by that.

        What parks gives back what it held before it waits, wherever that is kept.
        """
        first = [verdict for verdict in verdicts if isinstance(verdict, Park) or not self._is_one_step]
        if changes := [verdict.change for verdict in first if verdict.change is not None]:
            self._store.change(changes)
        return []

    def keep(self, leases: Sequence[Lease]) -> list[Lease]:
        """Renew what these hold; returns those that have lost something and must stop."""
        kept = [(lease, guards) for lease in leases if (guards := self._held.get(_pair(lease)))]
        if not kept:
            return []
        answers = self._store.change([renewing(guards, self._holder(lease)) for lease, guards in kept])
        return [lease for (lease, _), held in zip(kept, answers, strict=True) if not held]

    def lose(self, leases: Sequence[Lease]) -> None:
        """These are not ours any more, nor is what they held."""
        for lease in leases:
            self._held.pop(_pair(lease), None)

    def rouse(self, now: float) -> None:
        """Wake jobs whose key nobody will change: a holder vanished, a cooldown is over, there are tokens again."""
        if self._parking is None:
            return
        with self._lock:
            due = [key for key, at in self._wakes.items() if at <= now][:_KEYS]
        if due:
            again = self._parking.rouse(due, _KEYS)
            with self._lock:
                for key in due:
                    self._wakes.pop(key, None)
                self._wakes.update({key: now + wait for key, wait in again.items()})
        if now >= self._look_at:
            self._look_at = now + self._seconds / 3
            self._parking.rouse(None, _KEYS)

    def room(self, queues: list[str]) -> tuple[Room, float]:
        """The queues in portions, each with how many may start now, without those that are paused or exhausted;
        and when there are none, the seconds until one has tokens again, infinite when all are paused."""
        queues = self._gate.open(queues)
        if not queues:
            return [], float("inf")
        limited = {queue: limit for queue in queues if (limit := self._rules.queue_rate(queue))}
        if not limited:
            return [(queues, 1 << 31)], 0.0
        now, states = self._store.look([limit.key for limit in limited.values()])
        room: Room = []
        waits = []
        for queue in queues:
            if queue not in limited:
                if not room or room[-1][0][-1] in limited:
                    room.append(([], 1 << 31))
                room[-1][0].append(queue)
                continue
            limit, state = limited[queue], unpack(states.get(limited[queue].key))
            if tokens := limit.tokens(state, now):
                room.append(([queue], tokens))
            else:
                waits.append(limit.bucket(state, now).next_at() - now)
        return room, min(waits, default=0) / MICROSECOND

    def _attached(self, verdict: Verdict) -> Verdict:
        guards = self._held.pop(_pair(verdict.lease), None)
        if guards is None:
            return verdict
        change: Change = settling(guards, self._holder(verdict.lease), ending_of(verdict))
        return structs.replace(verdict, change=change)

    def _holder(self, lease: Lease) -> Holder:
        return Holder(lease.id, lease.fence, self._seconds)


def ending_of(verdict: Verdict) -> Ending:
    """What a verdict says about the run: only what the handler did itself is a success or a failure."""
    if isinstance(verdict, Park):
        return Ending(over=False)
    if isinstance(verdict, Ack):
        return Ending(over=True, succeeded=True if verdict.state == "done" else None)
    failed = False if verdict.charge in ("attempt", "crash") else None
    if isinstance(verdict, Abandon):
        return Ending(over=True, succeeded=failed)
    return Ending(over=False, succeeded=failed, again=verdict.delay)


def _put_off(lease: Lease, error: BackendError) -> Verdict:
    """Without its guards a job does not run: what they keep apart must stay apart."""
    return Nack(lease=lease, delay=_STORE_IS_DOWN * (0.5 + random.random()), reason=f"no guards: {error}")  # noqa: S311


def _pair(lease: Lease) -> Pair:
    return lease.id, lease.fence
