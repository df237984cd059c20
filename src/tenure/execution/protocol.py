"""What travels over the pipes between parent and child: orders to the child, reports to the parent; nothing is pickled.

Each frame is a length and a msgpack value. A frame with an empty list is the child's first: it has loaded the app.
An empty frame only wakes the parent.

A child has two pipes for reports. The parent waits for the first. Reports in the second do not wake the parent: it
reads them with the next report in the first, and every 50 ms. They are safe there when the child dies.
"""

import signal
import struct
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from tenure.execution.outcome import Outcome

# Signals such as Ctrl-C reach a whole process group. Only the parent acts on them: it decides what happens to jobs.
PARENT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
_LENGTH = struct.Struct("<I")
_MAX_FRAME = 1 << 30  # bytes, far above any frame of ours: a larger length was written by other code


class Order(Struct, frozen=True, array_like=True, gc=False):
    """Run this job; `ticket` grows with every order of a runner."""

    ticket: int
    body: bytes
    number: int
    crashes: int
    fence: int
    timeout: float | None


class Report(Struct, frozen=True, array_like=True, gc=False):
    """How the job with this ticket ended."""

    ticket: int
    outcome: Outcome


class InvalidFrame(Exception):
    """The bytes from a pipe are not a frame: other code has written to it."""


_encoder = msgspec.msgpack.Encoder()
_decode_report = msgspec.msgpack.Decoder(Report).decode
decode_orders = msgspec.msgpack.Decoder(list[Order]).decode


def decode_report(data: bytes | bytearray) -> Report:
    try:
        return _decode_report(data)
    except msgspec.MsgspecError as error:
        raise InvalidFrame(str(error)) from error


def encode_frame(value: Sequence[Order] | Report) -> bytes:
    data = _encoder.encode(value)
    return _LENGTH.pack(len(data)) + data


READY_FRAME = encode_frame([])
READY = READY_FRAME[_LENGTH.size :]
WAKE_FRAME = _LENGTH.pack(0)


class FrameReader:
    """Splits a stream of bytes into frames."""

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
            if length > _MAX_FRAME:
                raise InvalidFrame(f"a frame of {length} bytes")
            if end - start - _LENGTH.size < length:
                break
            start += _LENGTH.size + length
            yield stream[start - length : start]
        if stream is self._rest:
            del self._rest[:start]
        elif start < end:
            self._rest += stream[start:]
