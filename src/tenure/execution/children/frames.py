"""Frames: what travels over the pipes between parent and child: sealed bytes in, outcomes out, nothing pickled."""

import struct
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from tenure.execution.outcome import Outcome

_LENGTH = struct.Struct("<I")
_LONGEST = 1 << 30  # far above any frame of ours: what says more was not written by us


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


class Garbled(Exception):
    """What came over a pipe is no frame: somebody else has written to it."""


_encoder = msgspec.msgpack.Encoder()
_report = msgspec.msgpack.Decoder(Report).decode
decode_orders = msgspec.msgpack.Decoder(list[Order]).decode


def decode_report(data: bytes | bytearray) -> Report:
    try:
        return _report(data)
    except msgspec.MsgspecError as error:
        raise Garbled(str(error)) from error


def frame(value: Sequence[Order] | Report) -> bytes:
    data = _encoder.encode(value)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Cuts a stream of bytes back into the frames it is made of."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes | bytearray]:
        """Every frame that is complete with this piece of the stream."""
        stream: bytes | bytearray = data
        if self._rest:
            self._rest += data
            stream = self._rest
        start, end = 0, len(stream)
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(stream, start)
            if length > _LONGEST:
                raise Garbled(f"a frame of {length} bytes")
            if end - start - _LENGTH.size < length:
                break
            start += _LENGTH.size + length
            yield stream[start - length : start]
        if stream is self._rest:
            del self._rest[:start]
        elif start < end:
            self._rest += stream[start:]
