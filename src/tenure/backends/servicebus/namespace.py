"""Namespace: the Service Bus queues that carry our queues, opened when they are first used, and what they report.

The service moves a message to the dead letters itself after a number of deliveries. Each copy that Tenure sends starts
at zero, so only vanished workers count. Tenure writes their number into a new copy before that limit is reached.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusClient

from tenure.backends.records import Fact
from tenure.backends.servicebus.entity import Entity, Limits
from tenure.definition.job import DEFAULT_MAX_CRASHES

logger = logging.getLogger(__name__)

_MIN_DELIVERIES = 2  # with fewer, the service dead-letters a job as soon as one worker vanishes with it


class Namespace:
    """With `levels`, a queue is one entity for each level of priority, `mail.p8` before `mail.p5`; else it is one."""

    def __init__(
        self,
        client: ServiceBusClient,
        prefix: str,
        levels: Sequence[int] = (),
        queues: Sequence[str] = (),
        admin: Callable[[], Any] | None = None,
    ) -> None:
        """`admin` opens a client that can read the limits of queues, where we have that right."""
        self.client = client
        self._admin = admin
        self._prefix = prefix
        self._levels = sorted(levels, reverse=True)
        self._opened: dict[str, Entity] = {}
        self._opening = threading.Lock()
        self._queues = dict.fromkeys(queues)

    def entities(self, queue: str) -> list[Entity]:
        """The entities of a queue, the highest priority first."""
        self._queues.setdefault(queue)
        names = [f"{queue}.p{level}" for level in self._levels] or [queue]
        return [self._open(self._prefix + name) for name in names]

    def for_priority(self, queue: str, priority: int) -> Entity:
        """The entity for a job of this priority: the highest level that is not above it, else the lowest."""
        entities = self.entities(queue)
        for level, entity in zip(self._levels, entities, strict=False):
            if level <= priority:
                return entity
        return entities[-1]

    def known_queues(self) -> list[str]:
        """The queues that the URL names or that were used; the service does not list others to its clients."""
        return list(self._queues)

    def read_limits(self, entity: Entity) -> Limits | None:
        """Ask the namespace for the limits of a queue, and store them."""
        limits = read_limits(self._admin, entity.name)
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


class ServiceBusServer:
    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def facts(self) -> list[Fact]:
        limits = [
            limits_fact(entity.name, self._namespace.read_limits(entity))
            for queue in self._namespace.known_queues()
            for entity in self._namespace.entities(queue)
        ]
        return [
            *limits,
            Fact("durability", "the service stores each accepted message in three copies"),
            Fact("leases", "the jobs of a vanished worker come back when the queue's lock duration is over"),
            Fact("order", "by arrival; a retried or postponed job goes to the end, and there are no priorities "
                          "unless the option levels= names some"),
            Fact("not kept", "waiting jobs by id, and counts; the history and the workers are in the store"),
        ]  # fmt: skip


def read_limits(admin: Callable[[], Any] | None, name: str) -> Limits | None:
    """What the namespace reports about a queue; None where we may not ask."""
    if admin is None:
        return None
    try:
        with admin() as client:
            found = client.get_queue(name)
    except (AzureError, OSError, ValueError) as error:
        logger.info("cannot read the limits of %r, which needs the right Manage: %s", name, error)
        return None
    lock = found.lock_duration
    seconds = lock.total_seconds() if isinstance(lock, timedelta) else None
    return Limits(found.max_delivery_count, seconds, found.requires_duplicate_detection)


def limits_fact(name: str, limits: Limits | None) -> Fact:
    """What `tenure health` shows about a queue."""
    if limits is None or limits.deliveries is None:
        return Fact(f"queue {name}", "its limits cannot be read, which needs the right Manage for the namespace")
    duplicates = "on" if limits.drops_duplicates else "off"
    text = (
        f"dead-letters a message after {limits.deliveries} deliveries, locks it for {limits.lock or 0:g} s, "
        f"duplicate detection is {duplicates}"
    )
    if limits.deliveries < _MIN_DELIVERIES:
        text += (
            f"; a job dies with its first worker instead of after {DEFAULT_MAX_CRASHES} crashes: allow ten deliveries"
        )
    elif not limits.drops_duplicates:
        text += "; a retry may run twice when its worker dies while it sends the copy"
    return Fact(f"queue {name}", text, warning=limits.deliveries < _MIN_DELIVERIES)
