"""Tap: makes leases of received messages, and shuts receivers that nobody asks, before they swallow what arrives."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec import structs

from tenure.backends.contract import Lease
from tenure.backends.facts import Facts, Marker
from tenure.backends.servicebus import letters
from tenure.backends.servicebus.entities import Entities
from tenure.backends.servicebus.entity import Entity
from tenure.backends.servicebus.holdings import Held, Holdings
from tenure.backends.servicebus.letters import Found
from tenure.clock import Clock
from tenure.errors import BackendError

_LOOK = 0.2  # how long a queue that has something may take to show it
_TURN = 0.5  # how long one caller may have a receiver before another gets it
_STREAM = 50  # so many at once, and more are on their way until none comes
_UNASKED = 0.75
_TOLERANCE = 1.0


Again = Callable[[Entity, list[tuple[Held, Facts]]], object]


class Tap:
    def __init__(self, entities: Entities, holdings: Holdings, clock: Clock, owner: str, again: Again) -> None:
        """`again` puts a fresh copy in the place of each message, with these facts."""
        self.marker = Marker()
        self._again = again
        self._entities = entities
        self._holdings = holdings
        self._clock = clock
        self._owner = owner
        self._asked_about: set[Entity] = set()
        self._stopping = threading.Event()
        self._resting: threading.Thread | None = None

    def lease(self, queues: Sequence[str], limit: int, seconds: float, wait: float) -> list[Lease]:
        """What is there now, the first queue first; else the first that comes within the wait."""
        self._watch()
        give_up = time.monotonic() + wait
        leases = self._round(queues, limit, seconds, _LOOK)
        while not leases and (left := give_up - time.monotonic()) > 0:
            turn = _TURN / sum(len(self._entities.of(queue)) for queue in queues)
            leases = self._round(queues, limit, seconds, min(left, max(turn, 0.05)))
        return leases

    def stop(self) -> None:
        self._stopping.set()
        if self._resting is not None:
            self._resting.join(5)

    def _round(self, queues: Sequence[str], limit: int, seconds: float, wait: float) -> list[Lease]:
        leases: list[Lease] = []
        for queue in queues:
            for entity in self._entities.of(queue):
                if entity not in self._asked_about:
                    self._asked_about.add(entity)
                    threading.Thread(target=self._entities.read_limits, args=(entity,), daemon=True).start()
                more, flows = True, False
                while more and len(leases) < limit:
                    found = self._receive(entity, limit - len(leases), seconds, wait)
                    expires = self._clock.monotonic() + seconds
                    granted, met_suspect = self._grant(entity, queue, found, expires, alone=not leases)
                    leases += granted
                    if met_suspect:
                        return leases
                    flows = flows or len(found) >= _STREAM
                    more = flows and bool(found)
        return leases

    def _receive(self, entity: Entity, limit: int, seconds: float, wait: float) -> list[Found]:
        """Messages whose lock lasts for the whole lease; one that came while nobody asked has lost some of it."""
        found = [letters.read(self.marker, message, self._clock.now()) for message in entity.receive(limit, wait)]
        now = datetime.now(UTC)
        entity.lock = max([entity.lock, *(each.locked_for(now) for each in found)])
        if found and entity.lock < seconds - _TOLERANCE:
            entity.release([each.message for each in found])
            raise BackendError(
                f"the lock of the Service Bus queue {entity.name!r} lasts {entity.lock:.0f} s, less than a lease of "
                f"{seconds:g} s; make its lock duration longer, or the setting 'lease' shorter"
            )
        if short := [each.token for each in found if each.locked_for(now) < seconds - _TOLERANCE]:
            lost = set(short) - entity.renew(short)
            found = [each for each in found if each.token not in lost]
        return found

    def _grant(
        self, entity: Entity, queue: str, found: Sequence[Found], expires: float, alone: bool
    ) -> tuple[list[Lease], bool]:
        """Leases up to the first suspect, and whether one was met; what is behind it goes back to its place."""
        granted: list[Held] = []
        behind = []
        worn: list[tuple[Held, Facts]] = []
        met_suspect = False
        for each in found:
            stands = each.standing()
            if met_suspect or (stands.suspect and (granted or not alone)):
                met_suspect = True
                behind.append(each.message)
                continue
            is_worn = entity.limits.is_worn(each.message.delivery_count or 0)
            met_suspect = stands.suspect and not is_worn
            lease = Lease(
                id=each.facts.id,
                queue=queue,
                body=each.body,
                owner=self._owner,
                fence=stands.fence,
                attempts=stands.attempts,
                crashes=stands.crashes,
                suspect=stands.suspect,
                priority=each.facts.priority,
                due=each.facts.due,
                token=each.token,
            )
            held = Held(lease, each.facts, entity, each.token, expires)
            if is_worn:
                worn.append((held, structs.replace(each.facts, **stands._asdict(), died=0)))
            else:
                granted.append(held)
        self._holdings.hold(granted)
        if worn:
            self._again(entity, worn)
        if behind:
            entity.release(behind)
        return [held.lease for held in granted], met_suspect

    def _watch(self) -> None:
        if self._resting is None:
            self._resting = threading.Thread(target=self._rest, name="tenure-servicebus-tap", daemon=True)
            self._resting.start()

    def _rest(self) -> None:
        while not self._stopping.wait(_UNASKED / 3):
            for entity in self._entities.opened():
                entity.rest(_UNASKED)
