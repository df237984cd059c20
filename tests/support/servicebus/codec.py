"""AMQP 1.0 values as bytes: Python types where one fits, and small int and str subclasses where AMQP has several."""

import struct
import uuid
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple


class Symbol(str):
    __slots__ = ()


class Number(int):
    """An int with the width that AMQP wants for it."""

    constructor: ClassVar[int] = 0x81
    layout: ClassVar[str] = ">q"


class UByte(Number):
    constructor, layout = 0x50, ">B"


class UShort(Number):
    constructor, layout = 0x60, ">H"


class UInt(Number):
    constructor, layout = 0x70, ">I"


class ULong(Number):
    constructor, layout = 0x80, ">Q"


class Int(Number):
    constructor, layout = 0x71, ">i"


class Timestamp(Number):
    constructor, layout = 0x83, ">q"


class Array(list[Any]):
    """All of one type."""


class Described(NamedTuple):
    """A value with a number that says what it is."""

    code: int
    value: Any


_EMPTY = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_FIXED = {
    **{0x50: ">B", 0x51: ">b", 0x52: ">B", 0x53: ">B", 0x54: ">b", 0x55: ">b", 0x60: ">H", 0x61: ">h"},
    **{0x70: ">I", 0x71: ">i", 0x72: ">f", 0x80: ">Q", 0x81: ">q", 0x82: ">d", 0x83: ">q"},
}
_TEXTS: dict[int, Callable[[bytes], Any]] = {
    0x0: bytes,
    0x1: lambda raw: raw.decode("utf-8"),
    0x3: lambda raw: Symbol(raw.decode("ascii")),
}


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value that begins here, and where the next one does."""
    if data[at] == 0x00:
        code, at = decode(data, at + 1)
        value, at = decode(data, at)
        return Described(code, value), at
    return _decode_body(data, at + 1, data[at])


def _decode_body(data: bytes, at: int, constructor: int) -> tuple[Any, int]:
    if constructor in _EMPTY:
        return _EMPTY[constructor], at
    if constructor in _FIXED:
        layout = _FIXED[constructor]
        return struct.unpack_from(layout, data, at)[0], at + struct.calcsize(layout)
    if constructor == 0x45:
        return [], at
    if constructor == 0x56:
        return data[at] == 1, at + 1
    if constructor == 0x98:
        return uuid.UUID(bytes=data[at : at + 16]), at + 16
    width = 1 if constructor in (0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0) else 4
    size = int.from_bytes(data[at : at + width], "big")
    start, end = at + width, at + width + size
    if constructor >> 4 in (0xA, 0xB):
        return _TEXTS[constructor & 0x0F](data[start:end]), end
    return _decode_compound(data, start, width, constructor), end


def _decode_compound(data: bytes, at: int, width: int, constructor: int) -> Any:
    count = int.from_bytes(data[at : at + width], "big")
    at += width
    values: list[Any] = []
    if constructor in (0xE0, 0xF0):
        kind = data[at]
        at += 1
        for _ in range(count):
            value, at = _decode_body(data, at, kind)
            values.append(value)
        return Array(values)
    for _ in range(count):
        value, at = decode(data, at)
        values.append(value)
    return values if constructor in (0xC0, 0xD0) else dict(zip(values[::2], values[1::2], strict=True))


def encode(value: Any) -> bytes:
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"AMQP has no type for {value!r}")


def _encode_array(values: Array) -> bytes:
    parts = [encode(each) for each in values]
    kind = parts[0][:1] if parts else b"\x40"
    return _compound(b"\xf0", len(parts), kind + b"".join(part[1:] for part in parts))


def pairs(values: dict[Any, Any], count: int, before: bytes = b"") -> bytes:
    """A map of so many keys and values; `before` holds those that are encoded already."""
    return _compound(b"\xd1", count, before + b"".join(encode(each) for pair in values.items() for each in pair))


def _with_size(constructor: bytes, raw: bytes) -> bytes:
    return constructor + len(raw).to_bytes(4, "big") + raw


def _compound(constructor: bytes, count: int, raw: bytes) -> bytes:
    return constructor + struct.pack(">II", len(raw) + 4, count) + raw


# The first that fits counts, so that what is derived comes before what it derives from.
_WRITERS: tuple[tuple[type, Callable[[Any], bytes]], ...] = (
    (type(None), lambda _: b"\x40"),
    (bool, lambda value: b"\x41" if value else b"\x42"),
    (Number, lambda value: bytes([value.constructor]) + struct.pack(value.layout, value)),
    (int, lambda value: b"\x81" + struct.pack(">q", value)),
    (uuid.UUID, lambda value: b"\x98" + value.bytes),
    (Symbol, lambda value: _with_size(b"\xb3", value.encode("ascii"))),
    (str, lambda value: _with_size(b"\xb1", value.encode("utf-8"))),
    (bytes, lambda value: _with_size(b"\xb0", value)),
    (Described, lambda value: b"\x00\x53" + bytes([value.code]) + encode(value.value)),
    (Array, _encode_array),
    (dict, lambda value: pairs(value, count=2 * len(value))),
    (list, lambda values: _compound(b"\xd0", len(values), b"".join(map(encode, values)))),
)
