"""Holdings: the leases this worker holds, from grant to settlement, and when each must be renewed."""

from collections.abc import Iterable, Sequence

from tenure.backends.contract import Lease


class Holdings:
    """One table shared by the roles; each call is a few atomic dictionary operations."""

    def __init__(self) -> None:
        self._renew_at: dict[tuple[str, int], tuple[float, Lease]] = {}

    def __len__(self) -> int:
        return len(self._renew_at)

    def hold(self, leases: Iterable[Lease], renew_at: float) -> None:
        self._renew_at.update({(lease.id, lease.fence): (renew_at, lease) for lease in leases})

    def drop(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._renew_at.pop((lease.id, lease.fence), None)

    def due(self, now: float) -> Sequence[Lease]:
        """The leases whose time to be renewed has come."""
        return [lease for renew_at, lease in list(self._renew_at.values()) if renew_at <= now]

    def has_suspect(self) -> bool:
        return any(lease.suspect for _, lease in list(self._renew_at.values()))
