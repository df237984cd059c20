"""The requests that come over a queue's `$management` node, and the tokens that come over `$cbs`."""

import base64
import hashlib
import hmac
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.servicebus.codec import Array, Timestamp
from tests.support.servicebus.message import split
from tests.support.servicebus.queue import Queue

VENDOR = "com.microsoft:"


class Answer(NamedTuple):
    """`error` is an AMQP condition."""

    status: int
    body: Any = None
    error: str | None = None


LOCK_LOST = Answer(410, error=f"{VENDOR}message-lock-lost")
NOT_FOUND = Answer(404, error=f"{VENDOR}message-not-found")
BUSY = Answer(503, error=f"{VENDOR}server-busy")


def answer(queue: Queue, operation: str, request: dict[str, Any]) -> Answer:
    verb = _VERBS.get(operation.removeprefix(VENDOR))
    return verb(queue, request) if verb else Answer(501, error="amqp:not-implemented")


def _renew(queue: Queue, request: dict[str, Any]) -> Answer:
    messages = [queue.locked(token) for token in request["lock-tokens"]]
    held = [message for message in messages if message]
    if len(held) < len(messages):
        return LOCK_LOST
    for message in held:
        message.locked_until = time.time() + queue.lock
    return Answer(200, {"expirations": Array(Timestamp(message.locked_until * 1000) for message in held)})


def _settle(queue: Queue, request: dict[str, Any]) -> Answer:
    why = request.get("deadletter-reason"), request.get("deadletter-description")
    tokens = request["lock-tokens"]
    if any(queue.locked(token) is None for token in tokens):
        return LOCK_LOST
    for token in tokens:
        queue.settle(token, request["disposition-status"], *why)
    return Answer(200)


def _schedule(queue: Queue, request: dict[str, Any]) -> Answer:
    stored = [queue.put(split(each["message"])) for each in request["messages"]]
    return Answer(200, {"sequence-numbers": Array(message.sequence if message else 0 for message in stored)})


def _cancel(queue: Queue, request: dict[str, Any]) -> Answer:
    numbers = request["sequence-numbers"]
    if any(queue.messages.get(number) is None or queue.messages[number].state != "scheduled" for number in numbers):
        return NOT_FOUND
    for number in numbers:
        del queue.messages[number]
    return Answer(200)


def _peek(queue: Queue, request: dict[str, Any]) -> Answer:
    first, most = request["from-sequence-number"], request["message-count"]
    numbers = [number for number in sorted(queue.messages) if number >= first][:most]
    found = [{"message": queue.messages[number].encoded()} for number in numbers]
    return Answer(200, {"messages": found}) if found else Answer(204)


def _receive_deferred(queue: Queue, request: dict[str, Any]) -> Answer:
    found = [queue.messages.get(number) for number in request["sequence-numbers"]]
    free = [message for message in found if message and message.state == "deferred" and message.token is None]
    if len(free) < len(found):
        return NOT_FOUND
    for message in free:
        queue.lock_message(message)
    return Answer(200, {"messages": [{"message": each.encoded(), "lock-token": each.token} for each in free]})


_VERBS: dict[str, Callable[[Queue, dict[str, Any]], Answer]] = {
    "renew-lock": _renew,
    "update-disposition": _settle,
    "schedule-message": _schedule,
    "cancel-scheduled-message": _cancel,
    "peek-message": _peek,
    "receive-by-sequence-number": _receive_deferred,
}


def is_valid_token(token: object, key: str) -> bool:
    """Whether a shared-access signature was made with this key, and has not run out."""
    if not isinstance(token, str) or not token.startswith("SharedAccessSignature "):
        return False
    fields = dict(part.split("=", 1) for part in token.split(" ", 1)[1].split("&"))
    signed = f"{fields.get('sr', '')}\n{fields.get('se', '')}".encode()
    expected = base64.b64encode(hmac.digest(key.encode(), signed, hashlib.sha256)).decode()
    is_signed = hmac.compare_digest(urllib.parse.unquote(fields.get("sig", "")), expected)
    return is_signed and int(fields["se"]) > time.time()
