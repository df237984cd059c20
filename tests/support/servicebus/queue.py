"""Queue: messages in their order, locked while somebody has them, and the dead letters beside them."""

import heapq
import itertools
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from tests.support.servicebus.message import APPLICATION, Message, Sections, grown

_sequence = itertools.count(1)


class Outlet(Protocol):
    """A link that a queue can send messages down."""

    credit: int
    settles_first: bool

    def deliver(self, message: Message) -> None: ...


class Queue:
    """`lock` is seconds, `remember` how long ids are remembered for duplicate detection; 0 does not."""

    def __init__(
        self, name: str, *, lock: float = 30.0, most_deliveries: int = 10, remember: float = 0.0, grave: bool = False
    ) -> None:
        self.name = name
        self.lock = lock
        self.most_deliveries = most_deliveries
        self.remember = remember
        self.grave = None if grave else Queue(f"{name}/$deadletterqueue", lock=lock, grave=True)
        self.messages: dict[int, Message] = {}
        self.outlets: list[Outlet] = []
        self._locked: dict[uuid.UUID, Message] = {}
        self._ready: list[int] = []
        self._scheduled: list[tuple[float, int]] = []
        self._seen: dict[object, float] = {}

    def put(self, sections: Sections) -> Message | None:
        """Store a message; None when its id was seen a while ago."""
        now = time.time()
        message = Message(sections, next(_sequence), now)
        if self.remember and message.id is not None:
            if self._seen.get(message.id, 0.0) > now:
                return None
            self._seen[message.id] = now + self.remember
        self.messages[message.sequence] = message
        if message.due > now:
            message.state = "scheduled"
            heapq.heappush(self._scheduled, (message.due, message.sequence))
        else:
            heapq.heappush(self._ready, message.sequence)
        return message

    def locked(self, token: uuid.UUID) -> Message | None:
        """The message under this lock, if it has not run out."""
        message = self._locked.get(token)
        return message if message and message.locked_until > time.time() else None

    def lock_message(self, message: Message) -> None:
        message.token = uuid.uuid4()
        message.locked_until = time.time() + self.lock
        self._locked[message.token] = message

    def settle(self, token: uuid.UUID, outcome: str, reason: str | None = None, text: str | None = None) -> bool:
        """Whether the lock was still held; `outcome` is a word of the management protocol, or `released`."""
        message = self.locked(token)
        if message is None:
            return False
        self._unlock(message)
        endings: dict[str, Callable[[], object]] = {
            "completed": lambda: self.messages.pop(message.sequence),
            "suspended": lambda: self._bury(message, reason, text),
            "defered": lambda: setattr(message, "state", "deferred"),
            "abandoned": lambda: self._return(message, counted=True),
            "released": lambda: self._return(message, counted=False),
        }
        endings[outcome]()
        return True

    def empty(self) -> None:
        for memory in (self.messages, self._locked, self._ready, self._scheduled, self._seen):
            memory.clear()

    def lose_locks(self) -> None:
        """Every lock that is held now is lost, as after a failover."""
        for message in list(self._locked.values()):
            message.locked_until = 0.0
        self.tick()

    def tick(self) -> None:
        """What is due gets ready, what ran out comes back, and who has credit is served."""
        now = time.time()
        while self._scheduled and self._scheduled[0][0] <= now:
            due = self.messages.get(heapq.heappop(self._scheduled)[1])
            if due:  # not cancelled
                due.state = "active"
                heapq.heappush(self._ready, due.sequence)
        for message in [each for each in self._locked.values() if each.locked_until <= now]:
            self._unlock(message)
            self._return(message, counted=True)
        self.serve()

    def serve(self) -> None:
        """Send what is ready down the links in turn, as far as their credit goes."""
        while (open_ones := [outlet for outlet in self.outlets if outlet.credit > 0]) and (message := self._next()):
            outlet = open_ones[0]
            self.outlets.append(self.outlets.pop(self.outlets.index(outlet)))
            self.lock_message(message)
            outlet.deliver(message)
            if outlet.settles_first and message.token:
                self.settle(message.token, "completed")

    def _next(self) -> Message | None:
        while self._ready:
            message = self.messages.get(heapq.heappop(self._ready))
            if message and message.state == "active" and message.token is None:
                return message
        return None

    def _unlock(self, message: Message) -> None:
        if message.token:
            del self._locked[message.token]
        message.token = None

    def _return(self, message: Message, *, counted: bool) -> None:
        message.deliveries += counted
        if counted and self.grave and message.deliveries >= self.most_deliveries:
            self._bury(message, "MaxDeliveryCountExceeded", "the message was delivered too often")
        elif message.state == "active":
            heapq.heappush(self._ready, message.sequence)

    def _bury(self, message: Message, reason: str | None, text: str | None) -> None:
        del self.messages[message.sequence]
        why = {"DeadLetterReason": reason or "", "DeadLetterErrorDescription": text or ""}
        (self.grave or self).put(grown(message.sections, APPLICATION, why))
        (self.grave or self).serve()
