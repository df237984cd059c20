"""Session: links on one channel of a connection, their credit, and what comes and goes over them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.support.servicebus import management
from tests.support.servicebus.codec import Described, Int, Symbol, UByte, UInt, ULong, decode, encode
from tests.support.servicebus.faults import Faults
from tests.support.servicebus.message import APPLICATION, DATA, PROPERTIES, VALUE, Message, section, split
from tests.support.servicebus.queue import Queue

if TYPE_CHECKING:
    from tests.support.servicebus.peer import Fields, Peer

_BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH = range(0x11, 0x17)
_ERROR, _SOURCE, _TARGET = 0x1D, 0x28, 0x29
_ACCEPTED, _REJECTED, _RELEASED, _MODIFIED = range(0x24, 0x28)
_WINDOW = 1 << 20
_CREDIT = 1000
_BATCH = 0x80013700
_MANAGEMENT = "/$management"
_LARGEST_MESSAGE = 262_144


@dataclass(eq=False)
class Link:
    """One direction of one node; `count` is how many transfers it has seen."""

    session: "Session"
    handle: int
    node: str
    settles_first: bool
    credit: int = 0
    count: int = 0
    format: int = 0
    delivery: int = 0
    partial: bytearray = field(default_factory=bytearray)

    def deliver(self, message: Message) -> None:
        self.session.transfer(self, message.encoded(), message.token)


@dataclass(frozen=True)
class Entities:
    """What sessions share: the queues by name, the key, and what goes wrong."""

    queues: dict[str, Queue]
    key: str
    faults: Faults


class Session:
    def __init__(self, peer: "Peer", channel: int, entities: Entities) -> None:
        self._peer = peer
        self._channel = channel
        self._entities = entities
        self._links: dict[int, Link] = {}
        self._replies: dict[str, Link] = {}
        self._unsettled: dict[int, tuple[Link, UUID]] = {}
        self._next_out = 1
        self._next_in = 0

    def begin(self, next_in: int) -> None:
        self._next_in = next_in
        self._send(_BEGIN, [UInt(self._channel), UInt(1), UInt(_WINDOW), UInt(_WINDOW), UInt(255)])

    def end(self) -> None:
        for link in self._links.values():
            self._unplug(link)
        self._links.clear()

    def receive(self, code: int, fields: "Fields", payload: bytes) -> None:
        verbs: dict[int, Callable[[], None]] = {
            _ATTACH: lambda: self._attach(fields),
            _FLOW: lambda: self._flow(fields),
            _TRANSFER: lambda: self._take(fields, payload),
            _DISPOSITION: lambda: self._settle(fields),
            _DETACH: lambda: self._detach(fields[0]),
        }
        verbs[code]()

    def transfer(self, link: Link, payload: bytes, token: UUID | None = None) -> None:
        """Send a message down a link, in as many frames as it needs."""
        delivery, self._next_out = self._next_out, self._next_out + 1
        settled = link.settles_first or token is None
        if token and not settled:
            self._unsettled[delivery] = (link, token)
        tag = token.bytes_le if token else delivery.to_bytes(4, "big")
        step = self._peer.largest_frame - 128
        for start in range(0, len(payload), step):
            more = start + step < len(payload)
            first = [UInt(delivery), tag, UInt(0), settled] if not start else [None] * 4
            self._send(_TRANSFER, [UInt(link.handle), *first, more], payload[start : start + step])
        link.credit -= 1
        link.count += 1

    def _attach(self, fields: "Fields") -> None:
        name, handle, they_receive = fields[0], fields[1], fields[2]
        addresses = [terminus.value[0] if terminus and terminus.value else None for terminus in (fields[5], fields[6])]
        node = _node(addresses[0 if they_receive else 1] or "")
        error = self._refusal(node)
        ends = [None, None] if error else [Described(_SOURCE, [addresses[0]]), Described(_TARGET, [addresses[1]])]
        modes = [UByte(fields[3] or 0), UByte(fields[4] or 0)]
        limits = [None, None, UInt(0) if they_receive else None, ULong(_LARGEST_MESSAGE)]
        self._send(_ATTACH, [name, UInt(handle), not they_receive, *modes, *ends, *limits])
        if error:
            self._send(_DETACH, [UInt(handle), True, _error(*error)])
            return
        link = self._links[handle] = Link(self, handle, node, settles_first=fields[3] == 1)
        if not they_receive:
            self._grant(link)
        elif node in self._entities.queues:
            self._entities.queues[node].outlets.append(link)
        else:
            self._replies[node] = link

    def _refusal(self, node: str) -> tuple[str, str] | None:
        if node == "$cbs":
            return None
        if not self._peer.is_authorised:
            return "amqp:unauthorized-access", "no valid token was sent"
        if node.removesuffix(_MANAGEMENT) not in self._entities.queues:
            return "amqp:not-found", f"there is no entity {node}"
        if self._entities.faults.strike("attach") == "busy":
            return f"{management.VENDOR}server-busy", "busy on demand"
        return None

    def _detach(self, handle: int) -> None:
        link = self._links.pop(handle, None)
        if link is not None:
            self._unplug(link)
            self._send(_DETACH, [UInt(handle), True])

    def _unplug(self, link: Link) -> None:
        queue = self._entities.queues.get(link.node)
        if queue and link in queue.outlets:
            queue.outlets.remove(link)

    def _flow(self, fields: "Fields") -> None:
        link = self._links.get(fields[4])
        if link is None:
            return
        link.credit = max(0, (fields[5] or 0) + (fields[6] or 0) - link.count)
        if queue := self._entities.queues.get(link.node):
            queue.serve()
        if fields[8]:  # drain: what credit is left is used up
            link.count += link.credit
            link.credit = 0
            self._tell_flow(link, drained=True)

    def _grant(self, link: Link) -> None:
        link.credit = _CREDIT
        self._tell_flow(link)

    def _tell_flow(self, link: Link, drained: bool | None = None) -> None:
        windows = [UInt(self._next_in), UInt(_WINDOW), UInt(self._next_out), UInt(_WINDOW)]
        self._send(_FLOW, [*windows, UInt(link.handle), UInt(link.count), UInt(link.credit), None, drained])

    def _take(self, fields: "Fields", payload: bytes) -> None:
        """A transfer from the client: collected until whole, then put into a queue or answered as a request."""
        self._next_in = (self._next_in + 1) & 0xFFFFFFFF
        link = self._links[fields[0]]
        if fields[1] is not None:
            link.delivery, link.format = fields[1], fields[3] or 0
        link.partial += payload
        if fields[5]:
            return
        raw, link.partial = bytes(link.partial), bytearray()
        link.count += 1
        link.credit -= 1
        if link.credit < _CREDIT // 2:
            self._grant(link)
        queue = self._entities.queues.get(link.node)
        if queue is None:
            self._accept(link.delivery)
            self._answer(link.node, split(raw))
        else:
            self._store(queue, link, raw)

    def _store(self, queue: Queue, link: Link, raw: bytes) -> None:
        match self._entities.faults.strike("send"):
            case "cut":
                return self._peer.cut()
            case "silence":
                return None
            case "busy":
                return self._conclude(link.delivery, Described(_REJECTED, [_busy()]))
        sections = split(raw)
        batch = [split(decode(each)[0]) for each in sections[DATA]] if link.format == _BATCH else [sections]
        for each in batch:
            queue.put(each)
        self._accept(link.delivery)
        return queue.serve()

    def _settle(self, fields: "Fields") -> None:
        last = fields[1] if fields[2] is None else fields[2]
        for delivery in range(fields[1], last + 1):
            if delivery not in self._unsettled:
                continue
            fault = self._entities.faults.strike("settle")
            if fault == "cut":
                self._peer.cut()
                break
            if fault == "silence":
                continue
            link, token = self._unsettled.pop(delivery)
            queue = self._entities.queues[link.node]
            state = _settle_as(queue, token, fields[4])
            if not fields[3]:
                self._send(_DISPOSITION, [False, UInt(delivery), UInt(delivery), True, state])
            queue.serve()

    def _answer(self, node: str, request: dict[int, list[bytes]]) -> None:
        if node == "$cbs":
            valid = management.is_valid_token(section(request, VALUE), self._entities.key)
            self._peer.is_authorised |= valid
            told: dict[str, Any] = {"status-code": Int(202 if valid else 401), "status-description": "as asked"}
            return self._reply(node, request, told, None)
        fault = self._entities.faults.strike("manage")
        if fault == "cut":
            return self._peer.cut()
        if fault == "silence":
            return None
        queue = self._entities.queues[node.removesuffix(_MANAGEMENT)]
        operation = section(request, APPLICATION)["operation"]
        found = management.BUSY if fault else management.answer(queue, operation, section(request, VALUE) or {})
        told = {"statusCode": Int(found.status), "statusDescription": found.error or "OK"}
        if found.error:
            told["errorCondition"] = Symbol(found.error)
        self._reply(node, request, told, found.body)
        return queue.serve()

    def _reply(self, node: str, request: dict[int, list[bytes]], told: dict[str, Any], body: Any) -> None:
        to = section(request, PROPERTIES)[0]
        properties = Described(PROPERTIES, [None] * 5 + [to] + [None] * 7)
        parts = (properties, Described(APPLICATION, told), Described(VALUE, body))
        self.transfer(self._replies[node], b"".join(map(encode, parts)))

    def _accept(self, delivery: int) -> None:
        self._conclude(delivery, Described(_ACCEPTED, []))

    def _conclude(self, delivery: int, state: Described) -> None:
        self._send(_DISPOSITION, [True, UInt(delivery), UInt(delivery), True, state])

    def _send(self, code: int, fields: list[Any], payload: bytes = b"") -> None:
        self._peer.send(self._channel, code, fields, payload)


def _node(address: str) -> str:
    return (address.split("://", 1)[1].split("/", 1)[1] if "://" in address else address).lower()


def _error(condition: str, text: str) -> Described:
    return Described(_ERROR, [Symbol(condition), text, None])


def _busy() -> Described:
    return _error(f"{management.VENDOR}server-busy", "busy on demand")


def _settle_as(queue: Queue, token: UUID, state: Described | None) -> Described:
    """Do to the message what the client's delivery state says; the state to answer with."""
    if state is None:
        state = Described(_RELEASED, [])
    value, reason, text = state.value, None, None
    outcome = {_ACCEPTED: "completed", _REJECTED: "suspended", _RELEASED: "released", _MODIFIED: "abandoned"}[
        state.code
    ]
    if outcome == "abandoned" and len(value) > 1 and value[1]:
        outcome = "defered"
    if outcome == "suspended" and value and value[0] and len(value[0].value) > 2:
        info = value[0].value[2] or {}
        reason, text = info.get("DeadLetterReason"), info.get("DeadLetterErrorDescription")
    if not queue.settle(token, outcome, reason, text):
        return Described(_REJECTED, [_error(f"{management.VENDOR}message-lock-lost", "the lock has run out")])
    return Described(state.code, value if state.code == _MODIFIED else [])
