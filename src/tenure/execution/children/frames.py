"""Frames: what travels over the pipes between parent and child: sealed bytes in, outcomes out, nothing pickled."""

import struct
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from tenure.execution.outcome import Outcome

_LENGTH = struct.Struct("<I")


class Order(Struct, frozen=True, array_like=True, gc=False):
    """Run this; `ticket` grows with every order a runner gives."""

    ticket: int
    body: bytes
    number: int
    crashes: int
    fence: int
    timeout: float | None


class Report(Struct, frozen=True, array_like=True, gc=False):
    """How it went."""

    ticket: int
    outcome: Outcome


_encoder = msgspec.msgpack.Encoder()
decode_orders = msgspec.msgpack.Decoder(list[Order]).decode
decode_report = msgspec.msgpack.Decoder(Report).decode


def frame(value: Sequence[Order] | Report) -> bytes:
    data = _encoder.encode(value)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Cuts a stream of bytes back into the frames it is made of."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every frame that is complete with this piece of the stream."""
        self._buffer += data
        start, end = 0, len(self._buffer)
        while end - start >= 4:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if end - start - 4 < length:
                break
            yield bytes(self._buffer[start + 4 : start + 4 + length])
            start += 4 + length
        del self._buffer[:start]
