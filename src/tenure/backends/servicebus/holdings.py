"""Holdings: the leases of this process by their lock tokens; another process knows nothing of them."""

import threading
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from tenure.backends.contract import Lease
from tenure.backends.facts import Facts
from tenure.backends.servicebus.entity import Entity


class Held(NamedTuple):
    """`expires` is monotonic time; the lock itself lasts at least as long."""

    lease: Lease
    facts: Facts
    entity: Entity
    token: UUID
    expires: float


class Holdings:
    def __init__(self) -> None:
        self._held: dict[UUID, Held] = {}
        self._changing = threading.Lock()

    def hold(self, held: Iterable[Held]) -> None:
        with self._changing:
            self._held.update((each.token, each) for each in held)

    def take(self, lease: Lease) -> Held | None:
        """What is held under this very lease, for its caller alone."""
        with self._changing:
            held = self._held.get(lease.token)
            if held is None or (held.lease.owner, held.lease.fence) != (lease.owner, lease.fence):
                return None
            return self._held.pop(lease.token)

    def expired(self, now: float, queues: Iterable[str]) -> list[Held]:
        wanted = set(queues)
        with self._changing:
            return [held for held in self._held.values() if held.expires <= now and held.lease.queue in wanted]
