"""Graveyard: the dead-letter queue beside each queue; looking takes no lock, replaying and deleting does."""

from collections.abc import Callable, Sequence

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver

from tenure.backends.asking import JobRecord
from tenure.backends.facts import Facts, Marker, record, replayed
from tenure.backends.servicebus import letters
from tenure.backends.servicebus.entities import Entities
from tenure.backends.servicebus.entity import Entity
from tenure.backends.servicebus.letters import Found
from tenure.clock import Clock

_PAGE = 250
_LOOK = 0.5
_PATIENCE = 20  # looks that show nothing, on a slow line too
Copy = Callable[[Facts, bytes, int, int], ServiceBusMessage]


class Graveyard:
    """Every verb looks at all dead letters of the queues concerned."""

    def __init__(self, entities: Entities, clock: Clock, copy: Copy) -> None:
        self.marker = Marker()
        self._entities = entities
        self._clock = clock
        self._copy = copy

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        """Of one queue, or of those that the URL names or this process has used."""
        records = []
        for name in [queue] if queue else self._entities.known():
            for entity in self._entities.of(name):
                records += [record(found.facts, name, found.body) for found in self._peek(entity)]
        records.sort(key=lambda letter: (letter.finished_at or 0, letter.id))
        return [letter for letter in records if after is None or (letter.finished_at or 0, letter.id) > after][:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        def send_again(entity: Entity, graves: ServiceBusReceiver, chosen: list[Found]) -> None:
            now, room = self._clock.now(), entity.largest()
            chosen.sort(key=lambda found: (found.facts.enqueued, found.facts.id))
            copies = [self._copy(replayed(found.facts, now), found.body, 0, room) for found in chosen]
            for batch, _ in entity.batches(copies) if copies else ():
                entity.send(batch)
            _end(graves, chosen)

        return self._act(ids, send_again)

    def discard(self, ids: Sequence[str]) -> list[str]:
        return self._act(ids, lambda _, graves, chosen: _end(graves, chosen))

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        """Only dead letters stay here after their end."""
        if state != "dead":
            return 0
        old = [letter.id for letter in self.dead(queue=queue, limit=limit) if (letter.finished_at or 0) < before]
        return len(self.discard(old)) if old else 0

    def _peek(self, entity: Entity) -> list[Found]:
        found: list[Found] = []
        first = 1  # with 0 the SDK goes on behind what it showed last
        while page := entity.dead(first, _PAGE):
            found += [letters.read_dead(self.marker, message) for message in page]
            first = (page[-1].sequence_number or 0) + 1
        return found

    def _act(self, ids: Sequence[str], act: Callable[[Entity, ServiceBusReceiver, list[Found]], None]) -> list[str]:
        """Take out every dead letter, act on those with these ids, and give back the others."""
        wanted = set(ids)
        done: list[str] = []
        for entity in [entity for name in self._entities.known() for entity in self._entities.of(name)]:
            seen = self._peek(entity)
            if not any(found.facts.id in wanted for found in seen):
                continue
            with entity.service(), entity.graves() as graves:
                taken = [letters.read_dead(self.marker, message) for message in _take(graves, len(seen))]
                chosen = [found for found in taken if found.facts.id in wanted]
                act(entity, graves, chosen)
                for found in taken:
                    if found.facts.id not in wanted:
                        graves.abandon_message(found.message)
                done += [found.facts.id for found in chosen]
        return done


def _take(graves: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """As many as were seen, unless others hold some of them."""
    taken: list[ServiceBusReceivedMessage] = []
    empty = 0
    while len(taken) < count and empty < _PATIENCE:
        some = graves.receive_messages(max_message_count=min(_PAGE, count - len(taken)), max_wait_time=_LOOK)
        empty = 0 if some else empty + 1
        taken += some
    return taken


def _end(graves: ServiceBusReceiver, ended: Sequence[Found]) -> None:
    for found in ended:
        graves.complete_message(found.message)
