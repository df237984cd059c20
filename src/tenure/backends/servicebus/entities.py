"""Entities: which queues of the namespace carry a queue of ours, opened when they are first used."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from azure.servicebus import ServiceBusClient

from tenure.backends.servicebus.entity import Entity
from tenure.backends.servicebus.limits import Limits, read


class Entities:
    """With `levels`, a queue is one entity per level of priority, `mail.p8` before `mail.p5`; without, it is one."""

    def __init__(
        self,
        client: ServiceBusClient,
        prefix: str,
        levels: Sequence[int] = (),
        queues: Sequence[str] = (),
        admin: Callable[[], Any] | None = None,
    ) -> None:
        """`admin` opens a client that may be asked for the limits of queues, where there is one."""
        self.client = client
        self._admin = admin
        self._prefix = prefix
        self._levels = sorted(levels, reverse=True)
        self._opened: dict[str, Entity] = {}
        self._opening = threading.Lock()
        self._queues = dict.fromkeys(queues)

    def of(self, queue: str) -> list[Entity]:
        """In the order in which they are served."""
        self._queues.setdefault(queue)
        names = [f"{queue}.p{level}" for level in self._levels] or [queue]
        return [self._open(self._prefix + name) for name in names]

    def for_priority(self, queue: str, priority: int) -> Entity:
        """Where a job of this priority goes: the highest level that is not above it, else the lowest."""
        entities = self.of(queue)
        for level, entity in zip(self._levels, entities, strict=False):
            if level <= priority:
                return entity
        return entities[-1]

    def known(self) -> list[str]:
        """The queues that were named in the URL, or used; the service tells of no others to its clients."""
        return list(self._queues)

    def read_limits(self, entity: Entity) -> Limits | None:
        """Ask the namespace about a queue, and remember what it says."""
        limits = read(self._admin, entity.name)
        entity.limits = limits or entity.limits
        return limits

    def opened(self) -> list[Entity]:
        with self._opening:
            return list(self._opened.values())

    def close(self) -> None:
        for entity in self.opened():
            entity.close()
        self.client.close()

    def _open(self, name: str) -> Entity:
        with self._opening:
            if name not in self._opened:
                self._opened[name] = Entity(self.client, name)
            return self._opened[name]
