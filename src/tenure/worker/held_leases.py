"""HeldLeases: the leases that this worker holds, from grant to settlement, and when each is renewed or given up."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.messages import Lease

_SAFETY_MARGIN = 3.0  # a job must have stopped this many seconds before its lease expires, if it was not renewed


class HeldLease(NamedTuple):
    lease: Lease
    renew_at: float
    give_up_at: float


class HeldLeases:
    """One table, shared by all roles of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], HeldLease] = {}
        self._suspects: set[tuple[str, int]] = set()
        self._next_to_lease: object = None
        self.granted = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, leases: Sequence[Lease], asked: float, seconds: float) -> bool:
        """Add leases that were granted; their time counts from `asked`, the moment before the call.

        False when they must not start now: a suspect runs alone, otherwise another job's crash could be charged to it.
        """
        with self._lock:
            can_start = not self._suspects and not (leases[0].suspect and self._held)
            self.granted += len(leases)
            self._suspects.update(_key(lease) for lease in leases if lease.suspect)
            self._held.update(_entries(leases, asked, seconds))
        return can_start

    def renewed(self, leases: Sequence[Lease], asked: float, seconds: float) -> None:
        """These leases were renewed; those that were settled in the meantime are not added again."""
        with self._lock:
            self._held.update(_entries([lease for lease in leases if _key(lease) in self._held], asked, seconds))

    def drop(self, leases: Sequence[Lease]) -> list[Lease]:
        """Remove these leases; returns those that were held."""
        with self._lock:
            dropped = [self._held.pop(_key(lease), None) for lease in leases]
            self._suspects.difference_update(_key(lease) for lease in leases if lease.suspect)
        return [entry.lease for entry in dropped if entry is not None]

    def leases(self) -> Sequence[Lease]:
        return [entry.lease for entry in list(self._held.values())]

    def renewable(self, now: float) -> Sequence[Lease]:
        """The leases that are due for renewal."""
        return [entry.lease for entry in list(self._held.values()) if entry.renew_at <= now]

    def overdue(self, now: float) -> Sequence[Lease]:
        """The leases that were not renewed in time: another worker may get them soon."""
        return [entry.lease for entry in list(self._held.values()) if entry.give_up_at <= now]

    def ids(self, limit: int) -> tuple[str, ...]:
        """The jobs that have been held the longest."""
        return tuple(id for id, _ in list(self._held)[:limit])

    def may_lease(self, lane: object) -> bool:
        """Whether this lane may lease: not while a suspect runs, nor while another lane waits to run one alone."""
        if self._suspects:
            return False
        return self._next_to_lease is None or (self._next_to_lease is lane and not self._held)

    def lease_next_alone(self, lane: object) -> None:
        """This lane found a suspect: no other lane leases until nothing is held and this lane has leased."""
        self._next_to_lease = lane

    def end_turn(self, lane: object) -> None:
        """This lane has leased, or ends: the other lanes may lease again."""
        if self._next_to_lease is lane:
            self._next_to_lease = None


def _key(lease: Lease) -> tuple[str, int]:
    return lease.id, lease.fence


def _entries(leases: Sequence[Lease], asked: float, seconds: float) -> dict[tuple[str, int], HeldLease]:
    renew_at, give_up_at = asked + seconds / 3, asked + seconds - min(_SAFETY_MARGIN, seconds / 5)
    return {_key(lease): HeldLease(lease, renew_at, give_up_at) for lease in leases}
