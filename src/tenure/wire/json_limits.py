"""Limits of a message as JSON: its levels and members, and no member twice outside the payload.

The limits are the same when a message is sealed and when it is opened, because both count in the same bytes.
No object is made for a bracket or a member: with one, a message of 9 kB took up to 0.5 ms.
"""

from collections import Counter

import msgspec
from msgspec import Raw

from tenure.errors import Malformed

MAX_DEPTH = 64  # decoders stop at 900 levels on Python 3.11 and at 5000 on 3.13
MAX_MEMBERS = 50_000
_BACKSLASH, _BRACE = ord("\\"), ord("{")  # as a number it is found in 15 ns, as bytes in 200
_LONG = 4096  # bytes: counting all brackets takes longer than searching for a few
_FEW_BRACES = 8
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")


def _all_but(kept: bytes) -> bytes:
    return bytes(byte for byte in range(256) if byte not in kept)


_NOT_OPENING = _all_but(b"{[")
_NOT_BRACKETS, _NOT_COMMAS, _NOT_COLONS = _all_but(b'"{}[]'), _all_but(b'",'), _all_but(b'":')
_members_of = msgspec.json.Decoder(dict[str, Raw]).decode
_items_of = msgspec.json.Decoder(list[Raw]).decode


def check_limits(body: bytes) -> None:
    """Refuse more levels or members than a decoder should build; takes 1 µs for 10 kB of text, 16 for small objects."""
    if not _has_few_brackets(body):
        check_depth(body)
    if len(body) > MAX_MEMBERS:
        check_members(body)


def _has_few_brackets(body: bytes) -> bool:
    """Whether there are too few opening brackets for too many levels; where unsure, False."""
    if len(body) < _LONG:
        return len(body.translate(None, _NOT_OPENING)) <= MAX_DEPTH
    at = 0
    for _ in range(_FEW_BRACES):  # a search takes 0.15 µs, and 10 kB of text are passed over in 0.1
        at = body.find(b"{", at) + 1
        if not at:
            return b"[" not in body
    return False


def check_depth(body: bytes) -> None:
    """Refuse nesting that is too deep, and brackets that are never closed, before a decoder follows them.

    Takes 16 µs for 8 kB with 222 brackets.
    """
    brackets = _outside_texts(body, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")  # the innermost level
        if not brackets:
            return
    raise Malformed(f"the message is nested deeper than {MAX_DEPTH} levels")


def check_members(body: bytes) -> None:
    """Refuse more members and items than a decoder should build."""
    if body.count(b",") >= MAX_MEMBERS and len(_outside_texts(body, _NOT_COMMAS)) >= MAX_MEMBERS:
        raise Malformed(f"the message has more than {MAX_MEMBERS} members and items")


def _outside_texts(body: bytes, deleted: bytes) -> bytes:
    """The brackets, commas or colons that are not in a text; `deleted` are all other bytes except quotes."""
    if _BACKSLASH in body:
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # Between two of the bytes that are left, an even number of quotes begins and ends texts, and an odd number also
    # begins or ends a text that has such a byte in it.
    left = body.translate(_AS_SQUARE, deleted).replace(b'""', b"")
    return b"".join(left.split(b'"')[::2]) if b'"' in left else left


def refuse_repeated_members(body: bytes, kind: str = "message") -> None:
    """Refuse an object that has a member twice, because decoders disagree on which one is valid.

    The payload of a message, and of the messages in its callbacks, has one decoder, so it is not searched.
    `kind` says what the body is: a message, its callbacks, a follower, or anything else.
    """
    if body.startswith(b"["):
        for item in _items_of(body):
            refuse_repeated_members(bytes(item), kind)
    elif body.startswith(b"{"):
        members = _members_of(body)  # the last one of each name
        values = {name: text for name, value in members.items() if _BRACE in (text := bytes(value))}
        if _count_members(body) > len(members) + sum(map(_count_members, values.values())):
            raise Malformed(f"the member {_most_common_name(body)!r:.80} occurs twice")
        for name, value in values.items():
            if (kind, name) != ("message", "payload"):
                refuse_repeated_members(value, _kind_of(name, kind))


def _count_members(body: bytes) -> int:
    """Of this object and of all objects inside it."""
    return len(_outside_texts(body, _NOT_COLONS))


def _most_common_name(body: bytes) -> str:
    import json  # for the message of an error

    pairs = json.loads(body.decode(errors="replace"), object_pairs_hook=list, parse_int=str, strict=False)
    return str(Counter(name for name, _ in pairs).most_common(1)[0][0])


def _kind_of(name: str, kind: str) -> str:
    """What a member with this name is, inside something of this kind."""
    if kind == "callbacks":
        return "follower"
    return {("message", "callbacks"): "callbacks", ("follower", "message"): "message"}.get((kind, name), "")
