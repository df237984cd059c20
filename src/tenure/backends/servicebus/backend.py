"""ServiceBusBackend: the eight verbs on queues of a namespace.

A lease is a lock, lost when the service says so: recovery takes as long as the queue's lock. Whatever is to be written
down goes into a copy that is sent before the old message is completed: a crash in between repeats the copy under the
same name, which duplicate detection drops where it is on. Order is that of arrival; what comes back goes to the end.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar

from azure.servicebus import ServiceBusMessage
from msgspec import structs

from tenure.backends import facts as fact
from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Reaped
from tenure.backends.servicebus import letters
from tenure.backends.servicebus.entities import Entities
from tenure.backends.servicebus.entity import Entity, TooLarge
from tenure.backends.servicebus.graveyard import Graveyard
from tenure.backends.servicebus.holdings import Held, Holdings
from tenure.backends.servicebus.limits import told
from tenure.backends.servicebus.tap import Tap
from tenure.backends.upkeep import Fact
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError, InvalidPayload, PartialPut
from tenure.wire.signing import Ring

T = TypeVar("T")
_GROWTH = 4096  # what copies of a message need beside it, at least


class ServiceBusBackend:
    """The hot verbs; dead letters by delegation."""

    def __init__(self, entities: Entities, clock: Clock) -> None:
        self._entities = entities
        self._clock = clock
        self._holdings = Holdings()
        self._tap = Tap(entities, self._holdings, clock, secrets.token_hex(8), self._again)
        self._graveyard = Graveyard(entities, clock, self._copy)
        self.dead, self.replay, self.discard = self._graveyard.dead, self._graveyard.replay, self._graveyard.discard
        self.trim = self._graveyard.trim
        self.mark_with(None)

    def mark_with(self, ring: Ring | None) -> None:
        self._marker = self._tap.marker = self._graveyard.marker = fact.Marker(ring) if ring else fact.Marker()

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
        return self._tap.lease(queues, limit, seconds, wait)

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._apply(verdicts, [verdict.lease for verdict in verdicts], _complete)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        def copy(entity: Entity, items: list[tuple[Nack, Held]]) -> set[int]:
            now = self._clock.now()
            copies = []
            for verdict, held in items:
                after = fact.returned(held.facts, held.lease, verdict.charge, verdict.failure)
                due = now + round(verdict.delay * MICROSECOND) if verdict.delay else 0
                copies.append((held, after, due))
            return self._replace(entity, copies)

        return self._apply(verdicts, [verdict.lease for verdict in verdicts], copy)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        def bury(entity: Entity, items: list[tuple[Abandon, Held]]) -> set[int]:
            done = set()
            for index, (verdict, held) in enumerate(items):
                after = fact.returned(held.facts, held.lease, verdict.charge, verdict.failure)
                dead = fact.buried(after, held.lease, verdict.reason, self._clock.now())
                if entity.bury(held.token, verdict.reason[: letters.LONGEST_TEXT], self._epitaph(dead, held)):
                    done.add(index)
            return done

        return self._apply(verdicts, [verdict.lease for verdict in verdicts], bury)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """For the queue's lock duration, which is never shorter than the lease."""

        def push(entity: Entity, items: list[tuple[Lease, Held]]) -> set[int]:
            ours = entity.renew([held.token for _, held in items])
            expires = self._clock.monotonic() + seconds
            self._holdings.hold(held._replace(expires=expires) for _, held in items if held.token in ours)
            return {index for index, (_, held) in enumerate(items) if held.token in ours}

        return self._apply(leases, leases, push)

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        """What this process let run out; the service itself takes back what others held."""
        leases = [held.lease for held in self._holdings.expired(self._clock.monotonic(), queues)]

        def give_back(entity: Entity, items: list[tuple[Lease, Held]]) -> set[int]:
            self._replace(entity, [(held, fact.reaped(held.facts, held.lease), 0) for _, held in items])
            return set(range(len(items)))

        settled_meanwhile = {lease.token for lease in self._apply(leases, leases, give_back)}
        return [
            Reaped(lease.id, lease.queue, lease.suspect) for lease in leases if lease.token not in settled_meanwhile
        ]

    def facts(self) -> list[Fact]:
        limits = [
            told(entity.name, self._entities.read_limits(entity))
            for queue in self._entities.known()
            for entity in self._entities.of(queue)
        ]
        return [
            *limits,
            Fact("durability", "the service keeps what it has accepted, in three copies"),
            Fact("leases", "a vanished worker's jobs come back when the queue's lock duration is over"),
            Fact("order", "by arrival; what is retried or postponed goes to the end, and there are no priorities "
                          "unless the option levels= names some"),
            Fact("not kept", "waiting jobs by their id, and counts; what has run and the roster are in the store"),
        ]  # fmt: skip

    def close(self) -> None:
        self._tap.stop()
        self._entities.close()

    def _by_entity(self, messages: Sequence[Message]) -> list[tuple[Entity, list[Message]]]:
        found: dict[str, tuple[Entity, list[Message]]] = {}
        for message in messages:
            entity = self._entities.for_priority(message.queue, message.priority)
            found.setdefault(entity.name, (entity, []))[1].append(message)
        return list(found.values())

    def _batches(self, entity: Entity, messages: list[Message], now: int) -> list[tuple[object, int]]:
        largest = entity.largest() - _GROWTH
        for message in messages:
            if len(message.body) > largest:
                raise _too_large(message, largest)
        sent = [
            letters.written(self._marker, facts, message.body, facts.due if facts.due > now else 0, _GROWTH)
            for message in messages
            for facts in [fact.first(message, now)]
        ]
        try:
            return entity.batches(sent)
        except TooLarge as error:
            raise _too_large(max(messages, key=lambda message: len(message.body)), largest) from error

    def _replace(self, entity: Entity, copies: list[tuple[Held, fact.Facts, int]]) -> set[int]:
        """Send copies of what is still ours, then complete it; the indexes of those."""
        ours = entity.renew([held.token for held, _, _ in copies])
        kept = [(index, *copy) for index, copy in enumerate(copies) if copy[0].token in ours]
        room = entity.largest()
        sent = [self._copy(facts, held.lease.body, due, room) for _, held, facts, due in kept]
        for batch, _ in entity.batches(sent) if sent else ():
            entity.send(batch)
        done = entity.complete([held.token for _, held, _, _ in kept])
        return {index for index, held, _, _ in kept if held.token in done}

    def _again(self, entity: Entity, worn: list[tuple[Held, fact.Facts]]) -> None:
        """Write what vanished holders cost into fresh copies, before the service counts too many of them."""
        self._replace(entity, [(held, facts, 0) for held, facts in worn])

    def _copy(self, facts: fact.Facts, body: bytes, due: int, room: int) -> ServiceBusMessage:
        """The next copy of a message, with as many facts as fit beside it."""
        after = structs.replace(facts, copy=facts.copy + 1)
        return letters.written(self._marker, after, body, due, room - len(body) - _GROWTH // 2)

    def _epitaph(self, facts: fact.Facts, held: Held) -> str:
        return letters.epitaph(self._marker, facts, held.lease.body)

    def _apply(
        self, items: Sequence[T], leases: Sequence[Lease], apply: Callable[[Entity, list[tuple[T, Held]]], set[int]]
    ) -> list[Lease]:
        """Do it to what is still held, entity by entity; returns the leases for which it was not done.

        What could not be tried because the service did not answer is held as before, and may be tried again.
        """
        found: dict[str, list[tuple[int, Held]]] = {}
        for index, lease in enumerate(leases):
            if held := self._holdings.take(lease):
                found.setdefault(held.entity.name, []).append((index, held))
        done: set[int] = set()
        untried = dict(found)
        try:
            for name, some in found.items():
                finished = apply(some[0][1].entity, [(items[index], held) for index, held in some])
                done |= {some[position][0] for position in finished}
                del untried[name]
        finally:
            self._holdings.hold(held for some in untried.values() for _, held in some)
        return [lease for index, lease in enumerate(leases) if index not in done]


def _complete(entity: Entity, items: Sequence[tuple[object, Held]]) -> set[int]:
    done = entity.complete([held.token for _, held in items])
    return {index for index, (_, held) in enumerate(items) if held.token in done}


def _too_large(message: Message, largest: int) -> InvalidPayload:
    return InvalidPayload(
        f"job {message.handler!r} makes a message of {len(message.body)} bytes, and this namespace takes {largest} "
        "beside what is kept with it; store the data elsewhere and send where it is"
    )
