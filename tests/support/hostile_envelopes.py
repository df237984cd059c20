"""Hostile envelopes: messages that a key holder could seal with any values in any fields, from a seed.

Unlike `hostile_messages`, which lists what is known, these are drawn at random. Every message has a valid signature.
"""

import json
import random
from typing import Any, NamedTuple

from tenure.definition.context import Trace
from tenure.definition.retry import Backoff
from tenure.wire.envelope import Callbacks, Envelope, Follower
from tenure.wire.signing import Ring

FIELDS = Envelope.__struct_encode_fields__
PLACES = Callbacks.__struct_encode_fields__
GUARDED = frozenset({"singleInstance", "atMost", "idempotencyKey", "rate", "breaker"})  # such a job may have to wait
QUEUE = "hostile"


class Verbatim(str):
    """JSON text that no encoder would write."""


class HostileEnvelope(NamedTuple):
    id: str
    body: bytes
    fields: frozenset[str]  # what was changed, such as "rate" or "then.rate"


TEXTS = [
    "", " ", "abc", "a\0b", "\0", "\ud800", "\udfff\ud800", "x\r\ndelete 1", "x\n", "é", "é" * 300, "x" * 255,
    "x" * 256, "x" * 20_000, "\u202e", "../../etc/passwd", "'; DROP TABLE tenure_job; --", "{{7*7}}", "%s%n",
    "__class__", "-1", "2030-01-01T00:00:00Z", "2030-01-01T00:00:00", "0001-01-01T00:00:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59Z", "1969-12-31T00:00:00Z", "2030-02-30T00:00:00Z", "🐍" * 200,
    Verbatim('"\\u0000"'), Verbatim('"\\ud800\\ud800"'), Verbatim('"\x00"'), Verbatim('"\udcff"'), Verbatim('"\n"'),
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 9, 10, 100, 101, 2**31 - 1, 2**31, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e-300,
    3_155_760_000, 3_155_760_001, 1e12, -1e12, 1e15, 1e308, -1e308, Verbatim("1e999"), Verbatim("-1e999"),
    Verbatim("9" * 5000), Verbatim("-" + "9" * 400), Verbatim("0." + "3" * 3000), Verbatim("NaN"), Verbatim("Infinity"),
    Verbatim("01"), Verbatim("1E400"), 1_893_456_000,
]  # fmt: skip
OTHERS = [
    None, True, False, [], {}, [[]], [None] * 300, {"": ""}, {"a": {"b": [1, "c"]}}, {"$ref": "#"}, ["a", 1],
    Verbatim("[" * 70 + "]" * 70), Verbatim("{}{}"), Verbatim("undefined"), Verbatim('{"a":1,"a":2}'), Verbatim(""),
]  # fmt: skip
JUNK = [*TEXTS, *NUMBERS, *OTHERS]
# Values that come close to what a field takes, and some that it does take.
CLOSE: dict[str, list[Any]] = {
    "job": ["note", "notes", "os.system", "x" * 200, "x" * 201],
    "queue": [QUEUE, "hostile ", "HOSTILE", "other", "x" * 100, "x" * 101],
    "payload": [{}, {"name": "a"}, {"name": 5}, {"name": "a\0"}, {"self": 1}, {"name": Verbatim('"\udcff"')}],
    "priority": list(range(10)),
    "maxRetries": [0, 3],
    "name": ["name", "other"],
    "idempotencyKey": ["same", "once"],
    "schedule": ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00+05:30"],
    "timeout": [5, 86_400],
    "singleInstance": [True],
    "maxCrashes": [0, 3, 100],
    "expiresAt": ["2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "2100-01-01T00:00:00+14:00"],
    "rate": ["999999999/s", "0/s", "5/s burst 6", "1/s\0", "999999999999/s", "60/fortnight", "½/s"],
    "idempotencyTtl": [1, 3600],
    "atMost": [1, 2],
    "key": ["tenant"],
    "breaker": ["service"],
    "tags": [["a"], ["a", "a"], ["a,b"], ["x" * 64], ["x" * 65], [str(n) for n in range(16)], ["\0"], ["'; --", "Ω"]],
    "version": [1, 2],
}


class HostileEnvelopes:
    """Draws messages for a queue, a handler that is registered there, and a payload that fits it."""

    def __init__(
        self, ring: Ring, seed: int, queue: str = QUEUE, handler: str = "note", payload: dict[str, Any] | None = None
    ) -> None:
        self._ring = ring
        self._fitting = {"job": handler, "payload": payload or {"name": "a"}, "queue": queue}
        self._seed = seed
        self._random = random.Random(seed)
        self._drawn = 0

    def draw(self) -> HostileEnvelope:
        self._drawn += 1
        id = f"{self._seed:08x}-0000-7000-8000-{self._drawn:012d}"
        changed: set[str] = set()
        members = self._changed(self._good(id), "", changed, depth=0)
        unsealed = _dump(members).encode("utf-8", "surrogateescape")
        return HostileEnvelope(id, self._ring.seal(unsealed), frozenset(changed))

    def _good(self, id: str) -> dict[str, Any]:
        rest = {"priority": 5, "maxRetries": 0, "attempts": 0, "name": None, "identifier": id, "idempotencyKey": None}
        head = {"v": 1, "kid": self._ring.kid}
        return {**head, **self._fitting, **rest, "schedule": None, "createdAt": "2026-01-01T00:00:00Z"}

    def _changed(self, members: dict[str, Any], place: str, changed: set[str], depth: int) -> dict[str, Any]:
        """The members after one to three of them were changed, left out, or written twice."""
        for field in self._random.sample(FIELDS, self._random.choice((1, 1, 1, 2, 3))):
            changed.add(place + field)
            members[field] = self._value(field, place, changed, depth)
            if self._random.random() < 0.03:
                del members[field]
            elif self._random.random() < 0.03:
                members[Verbatim(f'"{field}"')] = self._value(field, place, changed, depth)
        return members

    def _value(self, field: str, place: str, changed: set[str], depth: int) -> Any:
        chance = self._random.random()
        if field == "callbacks" and chance < 0.9 and depth < 3:
            return self._callbacks(place, changed, depth + 1)
        if field == "backoff" and chance < 0.7:
            return self._struct(Backoff.__struct_encode_fields__, f"{place}backoff.", changed, ["fixed", "none"])
        if field == "trace" and chance < 0.7:
            traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            return self._struct(Trace.__struct_encode_fields__, f"{place}trace.", changed, [traceparent, "a=b"])
        if field == "meta" and chance < 0.5:
            return {self._random.choice(["a", "parent", "schedule", "tick", "\0"]): self._random.choice(JUNK)}
        if chance < 0.35 and field in CLOSE:
            return self._random.choice(CLOSE[field])
        return self._random.choice(JUNK)

    def _struct(self, fields: tuple[str, ...], place: str, changed: set[str], close: list[Any]) -> dict[str, Any]:
        chosen = self._random.sample(fields, self._random.randint(1, len(fields)))
        changed.update(place + field for field in chosen)
        return {field: self._random.choice([*close, *JUNK, 1, 2.0, 0.5]) for field in chosen}

    def _callbacks(self, place: str, changed: set[str], depth: int) -> dict[str, Any]:
        found = {}
        for name in self._random.sample(PLACES, self._random.randint(1, 2)):
            found[name] = [self._follower(f"{place}{name}.", changed, depth) for _ in range(self._random.randint(1, 2))]
        return found

    def _follower(self, place: str, changed: set[str], depth: int) -> dict[str, Any]:
        message = self._good("")
        if self._random.random() < 0.8:
            message = self._changed(message, place, changed, depth)
        follower: dict[str, Any] = {"message": message}
        if self._random.random() < 0.3:
            changed.add(f"{place}delay")
            follower["delay"] = self._random.choice([*NUMBERS, 0.0, "5", None])
        for name in ("result", "error"):
            if self._random.random() < 0.2:
                changed.add(f"{place}{name}")
                follower[name] = self._random.choice(["a", "value", *JUNK])
        return follower


FOLLOWER_FIELDS = tuple(field for field in Follower.__struct_encode_fields__ if field != "message")


def _dump(value: Any) -> str:
    if isinstance(value, Verbatim):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump(name)}:{_dump(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value)
