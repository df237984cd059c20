"""Peer: one AMQP connection as the broker sees it, from the first bytes to the last frame."""

import asyncio
import struct
from typing import Any, Protocol

from tests.support.servicebus.codec import Array, Described, Symbol, UByte, UInt, UShort, decode, encode
from tests.support.servicebus.session import Session

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
_ARITY = {OPEN: 10, BEGIN: 8, ATTACH: 14, FLOW: 11, TRANSFER: 11, DISPOSITION: 6, DETACH: 3, END: 1, CLOSE: 1}
_LARGEST_FRAME = 65_536


class Broker(Protocol):
    """What a peer needs of the emulator."""

    def joined(self, peer: "Peer") -> None: ...

    def left(self, peer: "Peer") -> None: ...

    def session(self, peer: "Peer", channel: int) -> Session: ...


class Peer(asyncio.Protocol):
    """Frames in, frames out; what they mean is the business of its sessions."""

    transport: asyncio.Transport

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._buffer = bytearray()
        self._in_headers = True
        self._sessions: dict[int, Session] = {}
        self.largest_frame = _LARGEST_FRAME
        self.is_authorised = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._broker.joined(self)

    def connection_lost(self, error: Exception | None) -> None:
        for session in self._sessions.values():
            session.end()
        self._broker.left(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 8:
            if self._in_headers:
                self._greet(bytes(self._buffer[:8]))
                del self._buffer[:8]
                continue
            size, offset, _, channel = struct.unpack_from(">IBBH", self._buffer)
            if len(self._buffer) < size:
                return
            frame = bytes(self._buffer[offset * 4 : size])
            del self._buffer[:size]
            if frame:  # an empty one is a heartbeat
                performative, at = decode(frame)
                self._receive(channel, performative.code, Fields(performative.value), frame[at:])

    def send(self, channel: int, code: int, fields: list[Any], payload: bytes = b"", kind: int = 0) -> None:
        """One frame; fields are filled up, because the SDK looks at all of them."""
        filled = fields + [None] * (_ARITY.get(code, 0) - len(fields))
        raw = encode(Described(code, filled)) + payload
        self.transport.write(struct.pack(">IBBH", len(raw) + 8, 2, kind, channel) + raw)

    def cut(self) -> None:
        self.transport.abort()

    def _greet(self, header: bytes) -> None:
        self.transport.write(header)
        self._in_headers = False
        if header[4] == 3:
            mechanisms = ("ANONYMOUS", "PLAIN", "EXTERNAL", "MSSBCBS")
            self.send(0, _MECHANISMS, [Array(map(Symbol, mechanisms))], kind=1)

    def _receive(self, channel: int, code: int, fields: "Fields", payload: bytes) -> None:
        match code:
            case 0x41:
                self.send(0, _OUTCOME, [UByte(0), None], kind=1)
                self._in_headers = True
            case 0x10:
                self.largest_frame = min(_LARGEST_FRAME, fields[2] or _LARGEST_FRAME)
                self.send(0, OPEN, ["emulator", None, UInt(_LARGEST_FRAME), UShort(1000), UInt(120_000)])
            case 0x11:
                self._sessions[channel] = self._broker.session(self, channel)
                self._sessions[channel].begin(fields[1] or 0)
            case 0x17:
                self._sessions.pop(channel).end()
                self.send(channel, END, [])
            case 0x18:
                self.send(0, CLOSE, [])
                self.transport.close()
            case _ if channel in self._sessions:
                self._sessions[channel].receive(code, fields, payload)


class Fields(list[Any]):
    """The fields of a performative; those that were left out are None."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index) if index < len(self) else None
