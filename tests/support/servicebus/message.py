"""Message: the sections of an AMQP message, kept as they came, with what the broker adds."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.support.servicebus.codec import Int, Symbol, Timestamp, UByte, UInt, decode, encode, pairs

HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, _, VALUE = range(0x70, 0x78)
Sections = dict[int, list[bytes]]
_SCHEDULED = Symbol("x-opt-scheduled-enqueue-time")


def split(raw: bytes) -> Sections:
    """Encoded values by section."""
    sections: Sections = {}
    at = 0
    while at < len(raw):
        code, start = decode(raw, at + 1)
        _, at = decode(raw, start)
        sections.setdefault(code, []).append(raw[start:at])
    return sections


def section(sections: Sections, code: int) -> Any:
    """The value of a section, None where there is none."""
    return decode(sections[code][0])[0] if code in sections else None


def joined(sections: Sections) -> bytes:
    order = [code for code in sorted(sections) if code != DELIVERY_ANNOTATIONS]
    return b"".join(b"\x00\x53" + bytes([code]) + raw for code in order for raw in sections[code])


def grown(sections: Sections, code: int, added: dict[Any, Any]) -> Sections:
    """The sections with more members in one that is a map; those it has keep the types their sender gave them."""
    raw = sections[code][0] if code in sections else b"\xc1\x01\x00"
    width = 1 if raw[0] == 0xC1 else 4
    count = int.from_bytes(raw[1 + width : 1 + 2 * width], "big")
    return {**sections, code: [pairs(added, count + 2 * len(added), before=raw[1 + 2 * width :])]}


@dataclass
class Message:
    """One message in one queue; `state` is active, deferred or scheduled, times are seconds."""

    sections: Sections
    sequence: int
    enqueued: float
    state: str = "active"
    deliveries: int = 0
    token: UUID | None = None
    locked_until: float = 0.0
    due: float = field(init=False)

    def __post_init__(self) -> None:
        annotations = section(self.sections, ANNOTATIONS) or {}
        self.due = (annotations.get(_SCHEDULED) or 0) / 1000

    @property
    def id(self) -> Any:
        properties = section(self.sections, PROPERTIES)
        return properties[0] if properties else None

    def encoded(self) -> bytes:
        """As a receiver gets it."""
        state = {"active": 0, "deferred": 1, "scheduled": 2}[self.state]
        annotations: dict[Any, Any] = {
            Symbol("x-opt-sequence-number"): self.sequence,
            Symbol("x-opt-enqueued-time"): Timestamp(self.enqueued * 1000),
            Symbol("x-opt-message-state"): Int(state),
        }
        if self.token:
            annotations[Symbol("x-opt-locked-until")] = Timestamp(self.locked_until * 1000)
        header = encode([True, UByte(4), None, self.deliveries == 0, UInt(self.deliveries)])
        return joined({**grown(self.sections, ANNOTATIONS, annotations), HEADER: [header]})
