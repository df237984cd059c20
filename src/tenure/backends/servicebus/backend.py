"""ServiceBusBackend: the verbs on queues of a namespace.

A lease is a lock of the service, so the recovery of a job takes as long as the queue's lock. New counters are written
into a copy, which is sent before the old message is completed. After a crash in between, the copy is sent again under
the same name, and duplicate detection drops it where it is on. Jobs run by arrival; a returned job goes to the end.
A suspect is deferred by the worker that receives it, and is found among the first messages of its queue.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar

from azure.servicebus import ServiceBusMessage
from msgspec import structs

from tenure.backends.contract import Backend
from tenure.backends.message_state import (
    MessageState,
    StateCodec,
    dead_state,
    expired_state,
    new_state,
    settled_state,
)
from tenure.backends.messages import DEFAULT_SUSPECT_AFTER, Abandon, Ack, Lease, Message, Nack, ReapedLease
from tenure.backends.servicebus.codec import MAX_TEXT_LENGTH, dead_letter_description, encode
from tenure.backends.servicebus.dead_letters import ServiceBusDeadLetters
from tenure.backends.servicebus.entity import Entity, TooLarge
from tenure.backends.servicebus.namespace import Namespace, ServiceBusServer
from tenure.backends.servicebus.receiver import LockedMessage, LockTable, Receiver
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, InvalidPayload, PartialPut
from tenure.wire.signing import Ring

T = TypeVar("T")
_RESERVED_BYTES = 4096  # room in every new message for the state of later copies


class ServiceBusBackend(Backend):
    """The verbs on one namespace."""

    def __init__(self, namespace: Namespace, clock: Clock) -> None:
        self._namespace = namespace
        self._clock = clock
        self._locks = LockTable()
        self._receiver = Receiver(namespace, self._locks, clock, secrets.token_hex(8), self._replace_worn)
        self._codec = StateCodec()
        self.dead_letters = self._letters = ServiceBusDeadLetters(namespace, clock, self._copy)
        self.server = ServiceBusServer(namespace)

    def use_keys(self, ring: Ring) -> None:
        self._codec = self._receiver.codec = self._letters.codec = StateCodec(ring)

    def put(self, messages: Sequence[Message]) -> list[str]:
        now = self._clock.now()
        accepted: list[str] = []
        batches = []
        for entity, some in self._by_entity(messages):
            start = 0
            for batch, count in self._batches(entity, some, now):
                batches.append((entity, batch, [message.id for message in some[start : start + count]]))
                start += count
        for entity, batch, ids in batches:
            try:
                entity.send(batch)
            except BackendError as error:
                text = f"{len(accepted)} of {len(messages)} messages were stored for certain: {error}"
                raise PartialPut(text, accepted) from error
            accepted += ids
        return [message.id for message in messages]

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        return self._receiver.lease(queues, limit, seconds, wait)

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._apply(verdicts, [verdict.lease for verdict in verdicts], _complete)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        def copy(entity: Entity, items: list[tuple[Nack, LockedMessage]]) -> set[int]:
            now = self._clock.now()
            copies = []
            for verdict, held in items:
                after = settled_state(held.state, verdict)
                due = now + round(verdict.delay * MICROSECOND) if verdict.delay else 0
                copies.append((held, after, due))
            return self._replace(entity, copies)

        return self._apply(verdicts, [verdict.lease for verdict in verdicts], copy)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        def move(entity: Entity, items: list[tuple[Abandon, LockedMessage]]) -> set[int]:
            done = set()
            for index, (verdict, held) in enumerate(items):
                after = settled_state(held.state, verdict)
                dead = dead_state(after, held.lease, verdict.reason, self._clock.now())
                description = dead_letter_description(self._codec, dead, held.lease.body)
                if entity.dead_letter(held.token, verdict.reason[:MAX_TEXT_LENGTH], description):
                    done.add(index)
            return done

        return self._apply(verdicts, [verdict.lease for verdict in verdicts], move)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """Extends by the queue's lock duration, which is never shorter than the lease."""

        def extend(entity: Entity, items: list[tuple[Lease, LockedMessage]]) -> set[int]:
            ours = entity.renew([held.token for _, held in items])
            expires = self._clock.monotonic() + seconds
            self._locks.add(held._replace(expires=expires) for _, held in items if held.token in ours)
            return {index for index, (_, held) in enumerate(items) if held.token in ours}

        return self._apply(leases, leases, extend)

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        """Returns the expired leases of this process; the service itself takes back those of other processes."""
        leases = [held.lease for held in self._locks.expired(self._clock.monotonic(), queues)]

        def give_back(entity: Entity, items: list[tuple[Lease, LockedMessage]]) -> set[int]:
            after = [(held, expired_state(held.state, held.lease, suspect_after), 0) for _, held in items]
            self._replace(entity, after)
            return set(range(len(items)))

        settled_meanwhile = {lease.token for lease in self._apply(leases, leases, give_back)}
        return [
            ReapedLease(lease.id, lease.queue, lease.alone) for lease in leases if lease.token not in settled_meanwhile
        ]

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return self._receiver.has_suspects(queues)

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        return self._receiver.lease_suspect(queues, seconds)

    def close(self) -> None:
        self._receiver.stop()
        self._namespace.close()

    def _by_entity(self, messages: Sequence[Message]) -> list[tuple[Entity, list[Message]]]:
        found: dict[str, tuple[Entity, list[Message]]] = {}
        for message in messages:
            entity = self._namespace.for_priority(message.queue, message.priority)
            found.setdefault(entity.name, (entity, []))[1].append(message)
        return list(found.values())

    def _batches(self, entity: Entity, messages: list[Message], now: int) -> list[tuple[object, int]]:
        largest = entity.max_message_size() - _RESERVED_BYTES
        for message in messages:
            if len(message.body) > largest:
                raise _too_large(message, largest)
        sent = [
            encode(self._codec, state, message.body, state.due if state.due > now else 0, _RESERVED_BYTES)
            for message in messages
            for state in [new_state(message, now)]
        ]
        try:
            return entity.batches(sent)
        except TooLarge as error:
            raise _too_large(max(messages, key=lambda message: len(message.body)), largest) from error

    def _replace(self, entity: Entity, copies: list[tuple[LockedMessage, MessageState, int]]) -> set[int]:
        """Send copies of the messages that we still hold, then complete these; return their indexes."""
        ours = entity.renew([held.token for held, _, _ in copies])
        kept = [(index, *copy) for index, copy in enumerate(copies) if copy[0].token in ours]
        room = entity.max_message_size()
        sent = [self._copy(state, held.lease.body, due, room) for _, held, state, due in kept]
        for batch, _ in entity.batches(sent) if sent else ():
            entity.send(batch)
        done = entity.complete([held.token for _, held, _, _ in kept])
        return {index for index, held, _, _ in kept if held.token in done}

    def _replace_worn(self, entity: Entity, worn: list[tuple[LockedMessage, MessageState]]) -> None:
        """Write the counters of often delivered messages into new copies, before the service reaches its limit."""
        self._replace(entity, [(held, state, 0) for held, state in worn])

    def _copy(self, state: MessageState, body: bytes, due: int, room: int) -> ServiceBusMessage:
        """The next copy of a message, with as much of its state as fits."""
        after = structs.replace(state, copy=state.copy + 1)
        return encode(self._codec, after, body, due, room - len(body) - _RESERVED_BYTES // 2)

    def _apply(
        self,
        items: Sequence[T],
        leases: Sequence[Lease],
        apply: Callable[[Entity, list[tuple[T, LockedMessage]]], set[int]],
    ) -> list[Lease]:
        """Apply to the leases that are still held, entity by entity; return the leases that were lost.

        When the service does not answer, the leases of the remaining entities stay held, and the caller may try again.
        """
        found: dict[str, list[tuple[int, LockedMessage]]] = {}
        for index, lease in enumerate(leases):
            if held := self._locks.take(lease):
                found.setdefault(held.entity.name, []).append((index, held))
        done: set[int] = set()
        untried = dict(found)
        try:
            for name, some in found.items():
                finished = apply(some[0][1].entity, [(items[index], held) for index, held in some])
                done |= {some[position][0] for position in finished}
                del untried[name]
        finally:
            self._locks.add(held for some in untried.values() for _, held in some)
        return [lease for index, lease in enumerate(leases) if index not in done]


def _complete(entity: Entity, items: Sequence[tuple[object, LockedMessage]]) -> set[int]:
    done = entity.complete([held.token for _, held in items])
    return {index for index, (_, held) in enumerate(items) if held.token in done}


def _too_large(message: Message, largest: int) -> InvalidPayload:
    return InvalidPayload(
        f"job {message.handler!r} makes a message of {len(message.body)} bytes, and this namespace accepts {largest} "
        "beside its counters; store the data elsewhere and send its location"
    )
