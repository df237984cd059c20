"""Doubts: what was sent and never answered, until the server can be asked what became of it."""

import threading
from collections.abc import Iterable

from tenure.backends.contract import Lease


class Doubts:
    """Claims by queue and owner, settlements by job and fence."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[tuple[str, str], None] = {}
        self._settled: set[tuple[str, int]] = set()

    def claimed(self, queue: str, owner: str) -> None:
        with self._lock:
            self._claims[queue, owner] = None

    def take_claims(self) -> list[tuple[str, str]]:
        """The claims to ask about; whoever takes one asks, and puts it back when there is no answer again."""
        if not self._claims:
            return []
        with self._lock:
            taken, self._claims = list(self._claims), {}
            return taken

    def settled(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._settled |= {(lease.id, lease.fence) for lease in leases}

    def clear(self, leases: Iterable[Lease]) -> set[tuple[str, int]]:
        """Which of these were in doubt: now there is an answer."""
        if not self._settled:
            return set()
        with self._lock:
            known = self._settled & {(lease.id, lease.fence) for lease in leases}
            self._settled -= known
            return known
