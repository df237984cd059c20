"""Holdings: the leases this worker holds, from grant to settlement, and when each must be renewed or let go."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.contract import Lease

_MARGIN = 3.0  # seconds before a lease expires by which its job must have stopped, if it could not be renewed


class Holding(NamedTuple):
    lease: Lease
    renew_at: float
    let_go_at: float


class Holdings:
    """One table shared by the roles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], Holding] = {}
        self._suspects: set[tuple[str, int]] = set()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, leases: Sequence[Lease], asked: float, seconds: float) -> None:
        """These were granted; their time counts from before that was asked for."""
        with self._lock:
            self._suspects.update(_key(lease) for lease in leases if lease.suspect)
            self._held.update(_holdings(leases, asked, seconds))

    def renewed(self, leases: Sequence[Lease], asked: float, seconds: float) -> None:
        """These were renewed; what was settled meanwhile is not held again."""
        with self._lock:
            self._held.update(_holdings([lease for lease in leases if _key(lease) in self._held], asked, seconds))

    def drop(self, leases: Sequence[Lease]) -> list[Lease]:
        """These are held no longer; returns those that were."""
        with self._lock:
            dropped = [self._held.pop(_key(lease), None) for lease in leases]
            self._suspects.difference_update(_key(lease) for lease in leases if lease.suspect)
        return [holding.lease for holding in dropped if holding is not None]

    def renewable(self, now: float) -> Sequence[Lease]:
        """The leases whose time to be renewed has come."""
        return [holding.lease for holding in list(self._held.values()) if holding.renew_at <= now]

    def overdue(self, now: float) -> Sequence[Lease]:
        """The leases that could not be renewed in time: another worker may have them soon."""
        return [holding.lease for holding in list(self._held.values()) if holding.let_go_at <= now]

    def ids(self, most: int) -> tuple[str, ...]:
        """The jobs held the longest."""
        return tuple(id for id, _ in list(self._held)[:most])

    def has_suspect(self) -> bool:
        return bool(self._suspects)


def _key(lease: Lease) -> tuple[str, int]:
    return lease.id, lease.fence


def _holdings(leases: Sequence[Lease], asked: float, seconds: float) -> dict[tuple[str, int], Holding]:
    renew_at, let_go_at = asked + seconds / 3, asked + seconds - min(_MARGIN, seconds / 5)
    return {_key(lease): Holding(lease, renew_at, let_go_at) for lease in leases}
