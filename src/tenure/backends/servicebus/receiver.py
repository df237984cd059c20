"""Receiver: makes leases of received messages, and holds their locks in the LockTable.

A background thread pauses the entities that were not asked for messages recently, because the service would lock
messages that no worker reads.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from tenure.backends.message_state import MessageState, StateCodec
from tenure.backends.messages import SUSPECT, Lease
from tenure.backends.servicebus.codec import ReceivedMessage, decode
from tenure.backends.servicebus.entity import Entity
from tenure.backends.servicebus.namespace import Namespace
from tenure.clock import Clock
from tenure.errors import BackendError

_RECEIVE_TIMEOUT = 0.2  # how long a queue with messages may take to deliver one
_MAX_TURN = 0.5  # how long one caller may use a receiver before another gets it
_MANY_MESSAGES = 50  # after so many at once, more are on their way until none comes
_IDLE_SECONDS = 0.75
_LOCK_TOLERANCE = 1.0


class LockedMessage(NamedTuple):
    """A lease with the lock of its message; `expires` is monotonic time, the lock lasts at least as long."""

    lease: Lease
    state: MessageState
    entity: Entity
    token: UUID
    expires: float


class LockTable:
    """The leases of this process by their lock tokens; other processes do not know them."""

    def __init__(self) -> None:
        self._held: dict[UUID, LockedMessage] = {}
        self._changing = threading.Lock()

    def add(self, held: Iterable[LockedMessage]) -> None:
        with self._changing:
            self._held.update((each.token, each) for each in held)

    def take(self, lease: Lease) -> LockedMessage | None:
        """Remove and return what is held under exactly this lease."""
        with self._changing:
            held = self._held.get(lease.token)
            if held is None or (held.lease.owner, held.lease.fence) != (lease.owner, lease.fence):
                return None
            return self._held.pop(lease.token)

    def expired(self, now: float, queues: Iterable[str]) -> list[LockedMessage]:
        wanted = set(queues)
        with self._changing:
            return [held for held in self._held.values() if held.expires <= now and held.lease.queue in wanted]


Replace = Callable[[Entity, list[tuple[LockedMessage, MessageState]]], object]


class Receiver:
    def __init__(self, namespace: Namespace, locks: LockTable, clock: Clock, owner: str, replace: Replace) -> None:
        """`replace` sends a new copy with this state in the place of each message."""
        self.codec = StateCodec()
        self._replace = replace
        self._namespace = namespace
        self._locks = locks
        self._clock = clock
        self._owner = owner
        self._limits_asked: set[Entity] = set()
        self._stopping = threading.Event()
        self._pauser: threading.Thread | None = None

    def lease(self, queues: Sequence[str], limit: int, seconds: float, wait: float) -> list[Lease]:
        """The messages that are there now, from the first queue first; else the first that come within the wait."""
        self._start_pauser()
        give_up = time.monotonic() + wait
        leases = self._lease_once(queues, limit, seconds, _RECEIVE_TIMEOUT)
        while not leases and (left := give_up - time.monotonic()) > 0:
            turn = _MAX_TURN / sum(len(self._namespace.entities(queue)) for queue in queues)
            leases = self._lease_once(queues, limit, seconds, min(left, max(turn, 0.05)))
        return leases

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return any(entity.deferred() for queue in queues for entity in self._namespace.entities(queue))

    def lease_suspect(self, queues: Sequence[str], seconds: float) -> list[Lease]:
        """The first suspect that no other worker has."""
        for queue in queues:
            for entity in self._namespace.entities(queue):
                for number in entity.deferred():
                    found = [decode(self.codec, each, self._clock.now()) for each in entity.receive_deferred(number)]
                    if leases := self._grant(entity, queue, found, self._clock.monotonic() + seconds):
                        return leases
        return []

    def stop(self) -> None:
        self._stopping.set()
        if self._pauser is not None:
            self._pauser.join(5)

    def _lease_once(self, queues: Sequence[str], limit: int, seconds: float, wait: float) -> list[Lease]:
        leases: list[Lease] = []
        for queue in queues:
            for entity in self._namespace.entities(queue):
                self._ask_limits_once(entity)
                more, has_many = True, False
                while more and len(leases) < limit:
                    found = self._receive(entity, limit - len(leases), seconds, wait)
                    expires = self._clock.monotonic() + seconds
                    leases += self._grant(entity, queue, self._without_suspects(entity, found), expires)
                    has_many = has_many or len(found) >= _MANY_MESSAGES
                    more = has_many and bool(found)
        return leases

    def _receive(self, entity: Entity, limit: int, seconds: float, wait: float) -> list[ReceivedMessage]:
        """Messages whose lock lasts for the whole lease; a lock that is partly used up is renewed."""
        found = [decode(self.codec, message, self._clock.now()) for message in entity.receive(limit, wait)]
        now = datetime.now(UTC)
        entity.lock = max([entity.lock, *(each.locked_for(now) for each in found)])
        if found and entity.lock < seconds - _LOCK_TOLERANCE:
            entity.release([each.message for each in found])
            raise BackendError(
                f"the lock of the Service Bus queue {entity.name!r} lasts {entity.lock:.0f} s, less than a lease of "
                f"{seconds:g} s; make its lock duration longer, or the setting 'lease' shorter"
            )
        if short := [each.token for each in found if each.locked_for(now) < seconds - _LOCK_TOLERANCE]:
            lost = set(short) - entity.renew(short)
            found = [each for each in found if each.token not in lost]
        return found

    def _without_suspects(self, entity: Entity, found: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """The messages that are no suspects; the suspects wait apart from now on."""
        if suspects := [each.token for each in found if each.state.vanished == SUSPECT and not each.state.died]:
            entity.defer(suspects)
        return [each for each in found if each.token not in suspects]

    def _grant(self, entity: Entity, queue: str, found: Sequence[ReceivedMessage], expires: float) -> list[Lease]:
        granted: list[LockedMessage] = []
        worn: list[tuple[LockedMessage, MessageState]] = []
        for each in found:
            counters = each.counters()
            needs_copy = entity.limits.needs_copy(each.message.delivery_count or 0)
            lease = Lease(
                id=each.state.id,
                queue=queue,
                body=each.body,
                owner=self._owner,
                fence=counters.fence,
                attempts=counters.attempts,
                crashes=counters.crashes,
                vanished=counters.vanished,
                priority=each.state.priority,
                due=each.state.due,
                token=each.token,
            )
            held = LockedMessage(lease, each.state, entity, each.token, expires)
            if needs_copy:
                worn.append((held, structs.replace(each.state, **counters._asdict(), died=0)))
            else:
                granted.append(held)
        self._locks.add(granted)
        if worn:
            self._replace(entity, worn)
        return [held.lease for held in granted]

    def _ask_limits_once(self, entity: Entity) -> None:
        if entity not in self._limits_asked:
            self._limits_asked.add(entity)
            threading.Thread(target=self._namespace.read_limits, args=(entity,), daemon=True).start()

    def _start_pauser(self) -> None:
        if self._pauser is None:
            self._pauser = threading.Thread(target=self._pause_idle, name="tenure-servicebus-receiver", daemon=True)
            self._pauser.start()

    def _pause_idle(self) -> None:
        while not self._stopping.wait(_IDLE_SECONDS / 3):
            for entity in self._namespace.opened():
                entity.pause(_IDLE_SECONDS)
