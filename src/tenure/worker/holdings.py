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
        self._wants_to_be_alone: object = None
        self.granted = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, leases: Sequence[Lease], asked: float, seconds: float) -> bool:
        """These were granted; their time counts from before that was asked for.

        False when they cannot start here and now: a suspect runs alone, or it could be charged for another's deed.
        """
        with self._lock:
            can_start = not self._suspects and not (leases[0].suspect and self._held)
            self.granted += len(leases)
            self._suspects.update(_key(lease) for lease in leases if lease.suspect)
            self._held.update(_holdings(leases, asked, seconds))
        return can_start

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

    def leases(self) -> Sequence[Lease]:
        return [holding.lease for holding in list(self._held.values())]

    def renewable(self, now: float) -> Sequence[Lease]:
        """The leases whose time to be renewed has come."""
        return [holding.lease for holding in list(self._held.values()) if holding.renew_at <= now]

    def overdue(self, now: float) -> Sequence[Lease]:
        """The leases that could not be renewed in time: another worker may have them soon."""
        return [holding.lease for holding in list(self._held.values()) if holding.let_go_at <= now]

    def ids(self, most: int) -> tuple[str, ...]:
        """The jobs held the longest."""
        return tuple(id for id, _ in list(self._held)[:most])

    def may_grow(self, who: object) -> bool:
        """Whether this lane may lease: not beside a suspect, nor while somebody waits for all the others to end."""
        if self._suspects:
            return False
        return self._wants_to_be_alone is None or (self._wants_to_be_alone is who and not self._held)

    def leave_alone(self, who: object) -> None:
        """This lane has met a suspect: let it be the next to lease, once nothing is held."""
        self._wants_to_be_alone = who

    def go_on(self, who: object) -> None:
        """This lane has had its turn."""
        if self._wants_to_be_alone is who:
            self._wants_to_be_alone = None


def _key(lease: Lease) -> tuple[str, int]:
    return lease.id, lease.fence


def _holdings(leases: Sequence[Lease], asked: float, seconds: float) -> dict[tuple[str, int], Holding]:
    renew_at, let_go_at = asked + seconds / 3, asked + seconds - min(_MARGIN, seconds / 5)
    return {_key(lease): Holding(lease, renew_at, let_go_at) for lease in leases}
