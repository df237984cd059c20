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


def decode_report(data: bytes) -> Report:
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
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every frame that is complete with this piece of the stream."""
        self._buffer += data
        start, end = 0, len(self._buffer)
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > _LONGEST:
                raise Garbled(f"a frame of {length} bytes")
            if end - start - _LENGTH.size < length:
                break
            start += _LENGTH.size + length
            yield bytes(self._buffer[start - length : start])
        del self._buffer[:start]
