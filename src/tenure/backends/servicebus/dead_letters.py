"""ServiceBusDeadLetters: the dead-letter queue of each entity; listing takes no lock, replaying and deleting do."""

from collections.abc import Callable, Sequence

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver

from tenure.backends.message_state import MessageState, StateCodec, dead_record, replayed_state
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.backends.servicebus.codec import ReceivedMessage, decode_dead
from tenure.backends.servicebus.entity import Entity
from tenure.backends.servicebus.namespace import Namespace
from tenure.clock import Clock
from tenure.errors import BackendError

_PAGE_SIZE = 250
_RECEIVE_TIMEOUT = 0.5
_MAX_EMPTY = 20  # attempts without a message; enough for a slow network
Copy = Callable[[MessageState, bytes, int, int], ServiceBusMessage]


class ServiceBusDeadLetters:
    """Every verb reads all dead letters of the queues concerned."""

    def __init__(self, namespace: Namespace, clock: Clock, copy: Copy) -> None:
        self.codec = StateCodec()
        self._namespace = namespace
        self._clock = clock
        self._copy = copy

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        """The letters of one queue, or of the queues that the URL names or this process has used."""
        records = []
        for name in [queue] if queue else self._namespace.known_queues():
            for entity in self._namespace.entities(name):
                records += [dead_record(found.state, name, found.body) for found in self._peek(entity)]
        records.sort(key=lambda letter: (letter.finished_at or 0, letter.id))
        return [letter for letter in records if after is None or (letter.finished_at or 0, letter.id) > after][:limit]

    def replay(self, ids: Sequence[str]) -> list[str]:
        def send_again(entity: Entity, receiver: ServiceBusReceiver, chosen: list[ReceivedMessage]) -> None:
            now, room = self._clock.now(), entity.max_message_size()
            chosen.sort(key=lambda found: (found.state.enqueued, found.state.id))
            copies = [self._copy(replayed_state(found.state, now), found.body, 0, room) for found in chosen]
            for batch, _ in entity.batches(copies) if copies else ():
                entity.send(batch)
            _complete(receiver, chosen)

        return self._act(ids, send_again)

    def discard(self, ids: Sequence[str]) -> list[str]:
        return self._act(ids, lambda _, receiver, chosen: _complete(receiver, chosen))

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:  # noqa: ARG002 - always refused
        raise BackendError("Service Bus accepts dead letters only from a worker that holds the lease of the job")

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        old = [letter.id for letter in self.page(queue=queue, limit=limit) if (letter.finished_at or 0) < before]
        return len(self.discard(old)) if old else 0

    def _peek(self, entity: Entity) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        first = 1  # with 0 the SDK would continue after the last page
        while page := entity.peek_dead_letters(first, _PAGE_SIZE):
            found += [decode_dead(self.codec, message) for message in page]
            first = (page[-1].sequence_number or 0) + 1
        return found

    def _act(
        self, ids: Sequence[str], act: Callable[[Entity, ServiceBusReceiver, list[ReceivedMessage]], None]
    ) -> list[str]:
        """Receive every dead letter, act on those with these ids, and give back the others."""
        wanted = set(ids)
        done: list[str] = []
        for entity in [entity for name in self._namespace.known_queues() for entity in self._namespace.entities(name)]:
            seen = self._peek(entity)
            if not any(found.state.id in wanted for found in seen):
                continue
            with entity.service(), entity.dead_letter_receiver() as receiver:
                taken = [decode_dead(self.codec, message) for message in _take(receiver, len(seen))]
                chosen = [found for found in taken if found.state.id in wanted]
                act(entity, receiver, chosen)
                for found in taken:
                    if found.state.id not in wanted:
                        receiver.abandon_message(found.message)
                done += [found.state.id for found in chosen]
        return done


def _take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """As many messages as were peeked, unless another process holds some of them."""
    taken: list[ServiceBusReceivedMessage] = []
    empty = 0
    while len(taken) < count and empty < _MAX_EMPTY:
        some = receiver.receive_messages(
            max_message_count=min(_PAGE_SIZE, count - len(taken)), max_wait_time=_RECEIVE_TIMEOUT
        )
        empty = 0 if some else empty + 1
        taken += some
    return taken


def _complete(receiver: ServiceBusReceiver, chosen: Sequence[ReceivedMessage]) -> None:
    for found in chosen:
        receiver.complete_message(found.message)
