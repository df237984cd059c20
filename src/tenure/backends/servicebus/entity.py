"""Entity: one queue of the namespace: a receiver, a sender, a desk where locks are renewed and settled by token,
and a window on the dead letters.

The SDK's objects are not made for several threads, so each of the four has a lock. Opening a link takes half a second:
they are opened once and kept. A receiver leaves its credit with the service when it stops waiting, and what
then arrives is locked for nobody: whoever does not ask again soon must `rest` it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from azure.core.exceptions import AzureError
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus._common import mgmt_handlers
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from tenure.backends.servicebus.limits import Limits
from tenure.errors import BackendError, BackendUnavailable

logger = logging.getLogger(__name__)

TOKENS = 100  # a request
_RENEW = b"com.microsoft:renew-lock"
_SETTLE = b"com.microsoft:update-disposition"
_FURTHER = 0.05  # how long a receiver waits for more once it has something; 0.2 s in the SDK, which is our latency
_ANSWER = 20.0


class TooLarge(BackendError):
    """One message is more than the service takes."""


class Entity:
    def __init__(self, client: ServiceBusClient, name: str) -> None:
        self.name = name
        self.lock = 0.0  # the longest that was seen, in seconds
        self.limits = Limits()
        self._client = client
        self._receiving = threading.Lock()
        self._sending = threading.Lock()
        self._settling = threading.Lock()
        self._looking = threading.Lock()
        self._receiver: ServiceBusReceiver | None = None
        self._sender: ServiceBusSender | None = None
        self._desk: ServiceBusSender | None = None
        self._window: ServiceBusReceiver | None = None
        self._asked = 0.0
        self._has_credit = False

    def receive(self, limit: int, wait: float) -> list[ServiceBusReceivedMessage]:
        """Up to so many messages, locked; the first may take this long to come."""
        with self._receiving, self.service():
            if self._receiver is None:
                self._receiver = self._open_receiver()
            self._has_credit = True
            messages = self._receiver.receive_messages(max_message_count=limit, max_wait_time=wait)
            self._has_credit = len(messages) < limit
            self._asked = time.monotonic()
            return messages

    def rest(self, unasked: float = 0.0) -> None:
        """If nobody asked for this long, take the credit back, and give back what came meanwhile."""
        if not (self._has_credit and time.monotonic() - self._asked >= unasked):
            return
        if not self._receiving.acquire(blocking=False):
            return
        try:
            if self._receiver is not None and time.monotonic() - self._asked >= unasked:
                self._has_credit = False
                with self.service():
                    self._drain(self._receiver)
        finally:
            self._receiving.release()

    def release(self, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        """Give back what was received and not leased: it keeps its place, and nothing is counted."""
        with self._receiving:
            for message in messages:
                try:
                    handler: Any = self._receiver._handler if self._receiver else None
                    handler.settle_messages(message._delivery_id, message._delivery_tag, "released")
                except (AzureError, AttributeError, OSError) as error:
                    logger.warning("a message of %r comes back only when its lock runs out: %s", self.name, error)

    def batches(self, messages: Sequence[ServiceBusMessage]) -> list[tuple[Any, int]]:
        """The messages in as few batches as hold them, each with their number; TooLarge names what does not fit."""
        with self._sending, self.service():
            sender = self._open_sender()
            batches: list[tuple[Any, int]] = []
            for message in messages:
                if not (batches and _fits(batches[-1][0], message)):
                    batches.append((sender.create_message_batch(), 0))
                    if not _fits(batches[-1][0], message):
                        raise TooLarge(f"the message is more than {batches[-1][0].max_size_in_bytes} bytes")
                batches[-1] = (batches[-1][0], batches[-1][1] + 1)
            return batches

    def send(self, batch: Any) -> None:
        with self._sending, self.service():
            self._open_sender().send_messages(batch)

    def largest(self) -> int:
        """The most bytes that the service takes for one message."""
        with self._sending, self.service():
            size: int = self._open_sender().create_message_batch().max_size_in_bytes
            return size

    def renew(self, tokens: Sequence[UUID]) -> set[UUID]:
        """Push the end of locks by the queue's lock duration; those that are still ours."""
        return self._by_token(tokens, lambda some: self._request(_RENEW, {"lock-tokens": _array(some)}))

    def complete(self, tokens: Sequence[UUID]) -> set[UUID]:
        """End messages; those that were still ours."""
        return self._by_token(tokens, lambda some: self._request(_SETTLE, _disposition("completed", some)))

    def bury(self, token: UUID, reason: str, description: str) -> bool:
        """Move a message to the dead letters; whether it was still ours."""
        why = {"deadletter-reason": reason, "deadletter-description": description}
        settled = self._by_token(
            [token], lambda some: self._request(_SETTLE, {**_disposition("suspended", some), **why})
        )
        return bool(settled)

    def dead(self, first: int, limit: int) -> list[ServiceBusReceivedMessage]:
        """So many dead letters from this sequence number on; nothing is locked."""
        with self._looking, self.service():
            if self._window is None:
                self._window = self.graves()
                self._window.__enter__()
            return self._window.peek_messages(max_message_count=limit, sequence_number=first)

    def graves(self) -> ServiceBusReceiver:
        """For whoever takes dead letters out, and closes it afterwards."""
        return self._client.get_queue_receiver(self.name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    def close(self) -> None:
        for part in (self._receiver, self._sender, self._desk, self._window):
            if part is not None:
                with suppress(AzureError, OSError):
                    part.close()

    def _by_token(self, tokens: Sequence[UUID], request: Callable[[Sequence[UUID]], None]) -> set[UUID]:
        """Many tokens in one request, which is refused as a whole when one lock is lost: then one by one."""
        done: set[UUID] = set()
        for start in range(0, len(tokens), TOKENS):
            some = tokens[start : start + TOKENS]
            try:
                request(some)
                done.update(some)
            except MessageLockLostError:
                if len(some) > 1:
                    for token in some:
                        done |= self._by_token([token], request)
        return done

    def _request(self, operation: bytes, body: dict[str, Any]) -> None:
        with self._settling, self.service():
            desk = self._open_desk()
            renewing = operation == _RENEW
            answered = mgmt_handlers.message_lock_renew_op if renewing else mgmt_handlers.default
            desk._mgmt_request_response_with_retry(operation, body, answered, timeout=_ANSWER)

    def _open_receiver(self) -> ServiceBusReceiver:
        """With the desk, because what is received now must be renewed soon, and opening that takes long too."""
        receiver = self._client.get_queue_receiver(self.name)
        receiver.__enter__()
        receiver._further_pull_receive_timeout = _FURTHER
        with self._settling:
            self._open_desk()
        return receiver

    def _open_desk(self) -> ServiceBusSender:
        if self._desk is None:
            self._desk = self._client.get_queue_sender(self.name)
            self._desk.__enter__()
        return self._desk

    def _open_sender(self) -> ServiceBusSender:
        if self._sender is None:
            self._sender = self._client.get_queue_sender(self.name)
            self._sender.__enter__()
        return self._sender

    def _drain(self, receiver: ServiceBusReceiver) -> None:
        drain = getattr(receiver._amqp_transport, "drain_and_release_messages", None)
        if drain is not None and receiver._handler is not None:
            drain(receiver._handler)
        else:
            receiver.close()
            self._receiver = None

    @contextmanager
    def service(self) -> Iterator[None]:
        """The SDK's errors as ours; a lost lock is an answer, for those who asked."""
        try:
            yield
        except MessageLockLostError:
            raise
        except MessagingEntityNotFoundError as error:
            raise BackendError(f"the namespace has no queue {self.name!r}; create it there first") from error
        except (ServiceBusAuthenticationError, ServiceBusAuthorizationError) as error:
            raise BackendUnavailable(f"Service Bus refused our credentials for {self.name!r}: {error}") from error
        except (ServiceBusError, AzureError, OSError, ValueError) as error:
            raise BackendUnavailable(f"Service Bus did not do what was asked of {self.name!r}: {error}") from error


def _fits(batch: Any, message: ServiceBusMessage) -> bool:
    try:
        batch.add_message(message)
    except MessageSizeExceededError:
        return False
    return True


def _array(tokens: Sequence[UUID]) -> dict[str, Any]:
    """An AMQP array, as the SDK's encoder knows it."""
    from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

    made: dict[str, Any] = PyamqpTransport.AMQP_ARRAY_VALUE(list(tokens))
    return made


def _disposition(status: str, tokens: Sequence[UUID]) -> dict[str, Any]:
    return {"disposition-status": status, "lock-tokens": _array(tokens)}
