"""Holdings: the leases this worker holds, from grant to settlement, and when each must be renewed or let go."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tenure.backends.contract import Lease

_MARGIN = 3.0  # seconds before a lease expires by which its job must have stopped, if it could not be renewed


class Holding(NamedTuple):
    lease: Lease
    renew_at: float
    let_go_at: float


class Holdings:
    """One table shared by the roles; each call is a few atomic dictionary operations."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], Holding] = {}
        self._suspects: set[tuple[str, int]] = set()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, leases: Sequence[Lease], asked: float, seconds: float) -> None:
        """These were granted or renewed; their time counts from before that was asked for."""
        renew_at, let_go_at = asked + seconds / 3, asked + seconds - min(_MARGIN, seconds / 5)
        self._suspects.update((lease.id, lease.fence) for lease in leases if lease.suspect)
        self._held.update({(lease.id, lease.fence): Holding(lease, renew_at, let_go_at) for lease in leases})

    def drop(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._held.pop((lease.id, lease.fence), None)
            if lease.suspect:
                self._suspects.discard((lease.id, lease.fence))

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
