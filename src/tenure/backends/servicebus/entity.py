"""Entity: one queue of a Service Bus namespace, with a link for each use: receiver, sender, settler, peeker, browser.

The settler renews and settles locks by their token; the peeker reads dead letters, the browser finds suspects. The
objects of the SDK are not thread-safe, so each has a lock. Opening a link takes half a second: it is opened once and
kept. A receiver leaves its credit with the service when it stops waiting. The service then locks arriving messages that
no worker reads, so an entity that is not asked again soon must be paused.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from azure.core.exceptions import AzureError
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus._common import mgmt_handlers
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from tenure.errors import BackendUnavailable, Unstorable

logger = logging.getLogger(__name__)

MAX_TOKENS = 100  # in one request
_RENEW = b"com.microsoft:renew-lock"
_SETTLE = b"com.microsoft:update-disposition"
_MORE_MESSAGES_TIMEOUT = 0.05  # how long a receiver waits for more messages; 0.2 s in the SDK, which adds latency
_REQUEST_TIMEOUT = 20.0
_BROWSED_MESSAGES = 250  # workers have deferred what comes first, so a suspect comes among these sooner or later
_UNKNOWN_DELIVERIES = 5  # every sensible queue allows these; the service's default is ten


class TooLarge(Unstorable):
    """One message is larger than the service accepts."""


class Limits(NamedTuple):
    """The limits of a queue as far as they are known; `lock` is in seconds."""

    deliveries: int | None = None
    lock: float | None = None
    drops_duplicates: bool | None = None

    def needs_copy(self, deliveries: int) -> bool:
        """Whether a message must be replaced by a new copy before it is leased again, after so many deliveries."""
        return deliveries >= max(1, (self.deliveries or _UNKNOWN_DELIVERIES) - 1)


class Entity:
    def __init__(self, client: ServiceBusClient, name: str) -> None:
        self.name = name
        self.lock = 0.0  # the longest lock that was seen, in seconds
        self.limits = Limits()
        self._client = client
        self._receiving = threading.Lock()
        self._sending = threading.Lock()
        self._settling = threading.Lock()
        self._peeking = threading.Lock()
        self._browsing = threading.Lock()
        self._receiver: ServiceBusReceiver | None = None
        self._sender: ServiceBusSender | None = None
        self._settler: ServiceBusSender | None = None
        self._peeker: ServiceBusReceiver | None = None
        self._browser: ServiceBusReceiver | None = None
        self._last_asked = 0.0
        self._has_credit = False

    def receive(self, limit: int, wait: float) -> list[ServiceBusReceivedMessage]:
        """Up to `limit` locked messages; waits this long for the first."""
        with self._receiving, self.service():
            if self._receiver is None:
                self._receiver = self._open_receiver()
            self._has_credit = True
            messages = self._receiver.receive_messages(max_message_count=limit, max_wait_time=wait)
            self._has_credit = len(messages) < limit
            self._last_asked = time.monotonic()
            return messages

    def pause(self, idle: float = 0.0) -> None:
        """If no caller asked for `idle` seconds, take the credit back, and release the messages that came meanwhile."""
        if not (self._has_credit and time.monotonic() - self._last_asked >= idle):
            return
        if not self._receiving.acquire(blocking=False):
            return
        try:
            if self._receiver is not None and time.monotonic() - self._last_asked >= idle:
                self._has_credit = False
                with self.service():
                    self._drain(self._receiver)
        finally:
            self._receiving.release()

    def release(self, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        """Give back messages that were received and not leased: they keep their place, and nothing is counted."""
        with self._receiving:
            for message in messages:
                try:
                    handler: Any = self._receiver._handler if self._receiver else None
                    handler.settle_messages(message._delivery_id, message._delivery_tag, "released")
                except (AzureError, AttributeError, OSError) as error:
                    logger.warning("a message of %r comes back only when its lock expires: %s", self.name, error)

    def batches(self, messages: Sequence[ServiceBusMessage]) -> list[tuple[Any, int]]:
        """The messages in as few batches as possible, each with its number of messages; raises TooLarge."""
        with self._sending, self.service():
            sender = self._open_sender()
            batches: list[tuple[Any, int]] = []
            for message in messages:
                if not (batches and _fits(batches[-1][0], message)):
                    batches.append((sender.create_message_batch(), 0))
                    if not _fits(batches[-1][0], message):
                        raise TooLarge(f"the message is larger than {batches[-1][0].max_size_in_bytes} bytes")
                batches[-1] = (batches[-1][0], batches[-1][1] + 1)
            return batches

    def send(self, batch: Any) -> None:
        with self._sending, self.service():
            self._open_sender().send_messages(batch)

    def max_message_size(self) -> int:
        """The most bytes that the service accepts for one message."""
        with self._sending, self.service():
            size: int = self._open_sender().create_message_batch().max_size_in_bytes
            return size

    def renew(self, tokens: Sequence[UUID]) -> set[UUID]:
        """Extend locks by the queue's lock duration; return those that we still hold."""
        return self._by_token(tokens, lambda some: self._request(_RENEW, {"lock-tokens": _array(some)}))

    def complete(self, tokens: Sequence[UUID]) -> set[UUID]:
        """End messages; return those that we still held."""
        return self._by_token(tokens, lambda some: self._request(_SETTLE, _disposition("completed", some)))

    def dead_letter(self, token: UUID, reason: str, description: str) -> bool:
        """Move a message to the dead letters; return whether we still held it."""
        why = {"deadletter-reason": reason, "deadletter-description": description}
        settled = self._by_token(
            [token], lambda some: self._request(_SETTLE, {**_disposition("suspended", some), **why})
        )
        return bool(settled)

    def defer(self, tokens: Sequence[UUID]) -> None:
        """Let messages wait apart: from now on they are received only by their sequence number."""
        self._by_token(tokens, lambda some: self._request(_SETTLE, _disposition("defered", some)))

    def deferred(self) -> list[int]:
        """The sequence numbers of deferred messages, as far as they are among the first of the queue.

        Messages that another worker has are left out where the service says so.
        """
        with self._browsing, self.service():
            found = self._open_browser().peek_messages(max_message_count=_BROWSED_MESSAGES, sequence_number=1)
        now = datetime.now(UTC)
        free = [each for each in found if each.locked_until_utc is None or each.locked_until_utc <= now]
        return [each.sequence_number or 0 for each in free if each.state == ServiceBusMessageState.DEFERRED]

    def receive_deferred(self, number: int) -> list[ServiceBusReceivedMessage]:
        """Lock a deferred message; nothing if another worker has it."""
        with self._browsing, self.service(), suppress(MessageNotFoundError):
            return self._open_browser().receive_deferred_messages(number)
        return []

    def peek_dead_letters(self, first: int, limit: int) -> list[ServiceBusReceivedMessage]:
        """Up to `limit` dead letters from this sequence number on; they are not locked."""
        with self._peeking, self.service():
            if self._peeker is None:
                self._peeker = self.dead_letter_receiver()
                self._peeker.__enter__()
            return self._peeker.peek_messages(max_message_count=limit, sequence_number=first)

    def dead_letter_receiver(self) -> ServiceBusReceiver:
        """Receives dead letters; the caller closes it."""
        return self._client.get_queue_receiver(self.name, sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    def close(self) -> None:
        for part in (self._receiver, self._sender, self._settler, self._peeker, self._browser):
            if part is not None:
                with suppress(AzureError, OSError):
                    part.close()

    def _by_token(self, tokens: Sequence[UUID], request: Callable[[Sequence[UUID]], None]) -> set[UUID]:
        """Send many tokens in one request; the service refuses all when one lock is lost, then send them one by one."""
        done: set[UUID] = set()
        for start in range(0, len(tokens), MAX_TOKENS):
            some = tokens[start : start + MAX_TOKENS]
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
            settler = self._open_settler()
            renewing = operation == _RENEW
            on_answer = mgmt_handlers.message_lock_renew_op if renewing else mgmt_handlers.default
            settler._mgmt_request_response_with_retry(operation, body, on_answer, timeout=_REQUEST_TIMEOUT)

    def _open_receiver(self) -> ServiceBusReceiver:
        """Opens the settler too: received messages must be renewed soon, and opening it takes half a second."""
        receiver = self._client.get_queue_receiver(self.name)
        receiver.__enter__()
        receiver._further_pull_receive_timeout = _MORE_MESSAGES_TIMEOUT
        with self._settling:
            self._open_settler()
        return receiver

    def _open_browser(self) -> ServiceBusReceiver:
        if self._browser is None:
            self._browser = self._client.get_queue_receiver(self.name)
            self._browser.__enter__()
        return self._browser

    def _open_settler(self) -> ServiceBusSender:
        if self._settler is None:
            self._settler = self._client.get_queue_sender(self.name)
            self._settler.__enter__()
        return self._settler

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
        """Raises the SDK's errors as ours; callers handle a lost lock."""
        try:
            yield
        except MessageLockLostError:
            raise
        except MessagingEntityNotFoundError as error:
            raise Unstorable(f"the namespace has no queue {self.name!r}; create it there first") from error
        except (ServiceBusAuthenticationError, ServiceBusAuthorizationError) as error:
            raise BackendUnavailable(f"Service Bus refused our credentials for {self.name!r}: {error}") from error
        except (ServiceBusError, AzureError, OSError, ValueError) as error:
            raise BackendUnavailable(f"a request to Service Bus for {self.name!r} failed: {error}") from error


def _fits(batch: Any, message: ServiceBusMessage) -> bool:
    try:
        batch.add_message(message)
    except MessageSizeExceededError:
        return False
    return True


def _array(tokens: Sequence[UUID]) -> dict[str, Any]:
    """An AMQP array for the SDK's encoder."""
    from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

    array: dict[str, Any] = PyamqpTransport.AMQP_ARRAY_VALUE(list(tokens))
    return array


def _disposition(status: str, tokens: Sequence[UUID]) -> dict[str, Any]:
    return {"disposition-status": status, "lock-tokens": _array(tokens)}
