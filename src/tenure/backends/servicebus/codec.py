"""How Service Bus carries a message of Tenure: the sealed bytes as the body, the state as a property.

The state of a dead letter is its description, because a property cannot be changed without a new message.
"""

import hashlib
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from msgspec import structs

from tenure.backends.message_state import LeaseCounters, MessageState, StateCodec, lease_counters, shortened
from tenure.clock import to_datetime, to_microseconds
from tenure.definition.failure import Failure

PROPERTY = "tenure"
MAX_TEXT_LENGTH = 4096  # of a reason or a description; a limit of the service
_TOO_MANY_DELIVERIES = "MaxDeliveryCountExceeded"
_MAX_ID_LENGTH = 128
_MARK_BYTES = 160
_MAX_STATE_BYTES = 16_384


class ReceivedMessage(NamedTuple):
    """A message that was received or peeked, and decoded."""

    message: ServiceBusReceivedMessage
    state: MessageState
    body: bytes

    @property
    def token(self) -> UUID:
        """Identifies the lock."""
        return UUID(str(self.message.lock_token))

    def locked_for(self, now: datetime) -> float:
        """Seconds until the lock expires, by our clock."""
        until = self.message.locked_until_utc
        return (until - now).total_seconds() if until else 0.0

    def counters(self) -> LeaseCounters:
        vanished = self.message.delivery_count or 0
        return lease_counters(self.state, vanished + 1, vanished)


def encode(codec: StateCodec, state: MessageState, body: bytes, due: int, max_state: int) -> ServiceBusMessage:
    """A message to send; it can be received from `due` on, at once when that is 0."""
    line = codec.write(shortened(state, min(_MAX_STATE_BYTES, max_state)), body).decode()
    return ServiceBusMessage(
        body,
        message_id=_message_id(state),
        subject=state.handler,
        application_properties={PROPERTY: line},
        scheduled_enqueue_time_utc=to_datetime(due) if due else None,
    )


def decode(codec: StateCodec, message: ServiceBusReceivedMessage, now: int) -> ReceivedMessage:
    """A received message; one that Tenure did not write is leased as it is, and the worker rejects it."""
    body = _body(message)
    state = codec.read(_property(message, PROPERTY), body)
    if state is None:
        state = MessageState(id=f"servicebus-{message.sequence_number}", handler="unknown", enqueued=now, due=now)
    return ReceivedMessage(message, state, body)


def decode_dead(codec: StateCodec, message: ServiceBusReceivedMessage) -> ReceivedMessage:
    """A dead letter; one that the service dead-lettered has the reason that the service gives."""
    body = _body(message)
    state = codec.read((message.dead_letter_error_description or "").encode(), body)
    if state is not None and state.died:
        return ReceivedMessage(message, state, body)
    died = message.enqueued_time_utc
    found = decode(codec, message, 0)
    reason = message.dead_letter_reason or "dead-lettered by the service"
    at = to_microseconds(died) if died else 1
    state = structs.replace(found.state, reason=reason, died=at)
    if reason == _TOO_MANY_DELIVERIES:
        text = f"the service counted {message.delivery_count or 'several'} workers that vanished with this job"
        failure = Failure(type="CrashLoop", message=text, at=at, attempt=state.attempts + 1)
        state = structs.replace(state, reason="crash_loop", failures=(*state.failures, failure))
    return found._replace(state=state)


def _body(message: ServiceBusReceivedMessage) -> bytes:
    """The bytes of a message; none if another program sent a body of another kind, which the worker then rejects."""
    try:
        return b"".join(message.body)
    except TypeError:
        return b""


def dead_letter_description(codec: StateCodec, state: MessageState, body: bytes) -> str:
    """The description of a dead letter, from which `decode_dead` reads its state."""
    short = shortened(state, MAX_TEXT_LENGTH - _MARK_BYTES)
    while len(line := codec.write(short, body).decode()) > MAX_TEXT_LENGTH and short.failures:
        short = structs.replace(short, failures=short.failures[1:])
    return line


def _message_id(state: MessageState) -> str:
    """Different for each copy, so that duplicate detection never drops a retry, and the same when a copy is resent."""
    is_short = len(state.id) < _MAX_ID_LENGTH - 20
    return f"{state.id if is_short else hashlib.sha256(state.id.encode()).hexdigest()}:{state.copy}"


def _property(message: ServiceBusReceivedMessage, name: str) -> bytes:
    found: dict[Any, Any] = message.application_properties or {}
    value = found.get(name.encode(), found.get(name, b""))
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "replace") if isinstance(value, str) else b""
