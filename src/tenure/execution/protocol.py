"""What travels over the pipes between parent and child: orders to the child, reports to the parent; nothing is pickled.

Orders are sent in frames: a length and a msgpack list. A report is a line of JSON, so that the parent decodes many
with one call. The child's first line says that it has loaded the app. An empty line only wakes the parent.

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


READY_LINE = b"ready\n"
WAKE_LINE = b"\n"
_encode_orders = msgspec.msgpack.Encoder().encode
decode_orders = msgspec.msgpack.Decoder(list[Order]).decode
_encode_report = msgspec.json.Encoder().encode
encode_reports = msgspec.json.Encoder().encode_lines
_report_decoder = msgspec.json.Decoder(Report)


def encode_frame(orders: Sequence[Order]) -> bytes:
    data = _encode_orders(orders)
    return _LENGTH.pack(len(data)) + data


def encode_report(report: Report) -> bytes:
    return _encode_report(report) + b"\n"


class ReportReader:
    """Splits a stream of bytes into reports."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, reports: list[Report]) -> None:
        """Add every report that is complete with this piece of the stream, up to the first that is none of ours."""
        lines, _, rest = (self._rest + data).rpartition(b"\n")
        try:
            reports += _report_decoder.decode_lines(lines)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            for line in lines.splitlines():
                reports += _decode_line(line)
        if rest and (not rest.startswith(b"[") or len(rest) > _MAX_FRAME):
            raise InvalidFrame(f"a line of {len(rest)} bytes that begins with {rest[:8]!r}")
        self._rest = rest


def _decode_line(line: bytes) -> list[Report]:
    try:
        return _report_decoder.decode_lines(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidFrame(str(error)) from error


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
