"""Letters: messages of ours as Service Bus carries them: the sealed bytes as the body, the facts as a property.

A dead letter's facts are its description, because a property cannot be changed without a new message.
"""

import hashlib
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from msgspec import structs

from tenure.backends.facts import Facts, Marker, Standing, fitting, standing
from tenure.clock import to_datetime, to_microseconds
from tenure.definition.failure import Failure

PROPERTY = "tenure"
_TOO_OFTEN = "MaxDeliveryCountExceeded"
LONGEST_TEXT = 4096  # of a reason or a description, says the service
_LONGEST_ID = 128
_MARK = 160
_MOST_FACTS = 16_384


class Found(NamedTuple):
    """A message that was received, or looked at, and read."""

    message: ServiceBusReceivedMessage
    facts: Facts
    body: bytes

    @property
    def token(self) -> UUID:
        """What the lock is known by."""
        return UUID(str(self.message.lock_token))

    def locked_for(self, now: datetime) -> float:
        """Seconds until the lock runs out, by our clock."""
        until = self.message.locked_until_utc
        return (until - now).total_seconds() if until else 0.0

    def standing(self) -> Standing:
        vanished = self.message.delivery_count or 0
        return standing(self.facts, vanished + 1, vanished)


def written(marker: Marker, facts: Facts, body: bytes, due: int, room: int) -> ServiceBusMessage:
    """A message to send; it may be received from `due` on, at once when that is 0."""
    line = marker.write(fitting(facts, min(_MOST_FACTS, room)), body).decode()
    return ServiceBusMessage(
        body,
        message_id=_name(facts),
        subject=facts.handler,
        application_properties={PROPERTY: line},
        scheduled_enqueue_time_utc=to_datetime(due) if due else None,
    )


def read(marker: Marker, message: ServiceBusReceivedMessage, now: int) -> Found:
    """A message; one that is not of our making is leased as it is, and fails the checks at the door."""
    body = b"".join(message.body)
    facts = marker.read(_property(message, PROPERTY), body)
    if facts is None:
        facts = Facts(id=f"servicebus-{message.sequence_number}", handler="unknown", enqueued=now, due=now)
    return Found(message, facts, body)


def read_dead(marker: Marker, message: ServiceBusReceivedMessage) -> Found:
    """A dead letter; one that the service itself put there has the reason that the service gives."""
    body = b"".join(message.body)
    facts = marker.read((message.dead_letter_error_description or "").encode(), body)
    if facts is not None and facts.died:
        return Found(message, facts, body)
    died = message.enqueued_time_utc
    found = read(marker, message, 0)
    reason = message.dead_letter_reason or "dead-lettered by the service"
    at = to_microseconds(died) if died else 1
    facts = structs.replace(found.facts, reason=reason, died=at)
    if reason == _TOO_OFTEN:
        story = f"{message.delivery_count or 'several'} workers vanished while they held this job, says the service"
        evidence = Failure(type="CrashLoop", message=story, at=at, attempt=facts.attempts + 1)
        facts = structs.replace(facts, reason="crash_loop", failures=(*facts.failures, evidence))
    return found._replace(facts=facts)


def epitaph(marker: Marker, facts: Facts, body: bytes) -> str:
    """The description of a dead letter, from which its facts are read again."""
    room = LONGEST_TEXT - _MARK
    short = fitting(facts, room)
    while len(line := marker.write(short, body).decode()) > LONGEST_TEXT and short.failures:
        short = structs.replace(short, failures=short.failures[1:])
    return line


def _name(facts: Facts) -> str:
    """Different for every copy, so that duplicate detection never drops a retry, and the same for the same copy."""
    id = facts.id if len(facts.id) < _LONGEST_ID - 20 else hashlib.sha256(facts.id.encode()).hexdigest()
    return f"{id}:{facts.copy}"


def _property(message: ServiceBusReceivedMessage, name: str) -> bytes:
    found: dict[Any, Any] = message.application_properties or {}
    value = found.get(name.encode(), found.get(name, b""))
    return value.encode() if isinstance(value, str) else bytes(value)
