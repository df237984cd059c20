"""What the backend does when a reply does not come: repeat the call, or remember it until the server answers again."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from tenure.backends.messages import Lease
from tenure.errors import BackendUnavailable

T = TypeVar("T")
_RETRY_SECONDS = 2.0  # a restart takes about a second; after two the caller should know
_RETRY_DELAYS = (0.0, 0.02, 0.1, 0.3)


def with_retries(act: Callable[[], T], on_retry: Callable[[], None] = lambda: None) -> T:
    """Call `act`, and again after a lost connection, at least once and for two seconds at most."""
    give_up = time.monotonic() + _RETRY_SECONDS
    tries = 0
    while True:
        try:
            return act()
        except BackendUnavailable:
            tries += 1
            if tries > 1 and time.monotonic() > give_up:
                raise
            on_retry()
            time.sleep(_RETRY_DELAYS[min(tries, len(_RETRY_DELAYS)) - 1])


class Unconfirmed:
    """Calls without an answer: claims by queue and owner, settlements by job and fence."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[tuple[str, str], None] = {}
        self._settled: set[tuple[str, int]] = set()

    def add_claim(self, queue: str, owner: str) -> None:
        with self._lock:
            self._claims[queue, owner] = None

    def take_claims(self) -> list[tuple[str, str]]:
        """The claims to ask about; the caller puts a claim back when there is no answer again."""
        if not self._claims:
            return []
        with self._lock:
            taken, self._claims = list(self._claims), {}
            return taken

    def add_settlements(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._settled |= {(lease.id, lease.fence) for lease in leases}

    def clear(self, leases: Iterable[Lease]) -> set[tuple[str, int]]:
        """Forget these leases, because the server answered; return those that were unconfirmed."""
        if not self._settled:
            return set()
        with self._lock:
            known = self._settled & {(lease.id, lease.fence) for lease in leases}
            self._settled -= known
            return known
