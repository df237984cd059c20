"""What is checked before anything is decoded: size, depth, number of members, and members that occur twice."""

import json
import re
from collections import Counter
from typing import Any

from tenure.errors import Malformed

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_MEMBERS = 50_000

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # an unclosed one runs to the end, so no byte is read twice
_BRACKET = re.compile(rb"[\[\]{}]")
_BREAKS = (b"\t", b"\n", b"\r")


def check_depth(body: bytes, depth: int = 0) -> None:
    """Refuse nesting that would exhaust a decoder's stack; nearly free unless there are many brackets.

    `depth` is how deep the body itself lies in its message.
    """
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH - depth:
        return
    for bracket in _BRACKET.finditer(_STRING.sub(b'""', body)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            raise Malformed(f"the message is nested deeper than {MAX_DEPTH} levels")


def check_members(body: bytes) -> None:
    """Refuse more members and items than a decoder should build; nearly free unless there are many commas."""
    if body.count(b",") < MAX_MEMBERS:
        return
    if _STRING.sub(b"", body).count(b",") >= MAX_MEMBERS:
        raise Malformed(f"the message has more than {MAX_MEMBERS} members and items")


def have_distinct_members(json_value: bytes) -> bool:
    """Whether no two members anywhere share a name; a cheap yes, while a no may need the exact answer."""
    if json_value.count(b'"') < 4:
        return True  # one name at most
    has_space = len(json_value.split(None, 1)) > 1  # a third of the time that looking for each of them takes
    if b"\\" in json_value or (has_space and (b'" ' in json_value or any(map(json_value.count, _BREAKS)))):
        return False
    # Without escapes and spaces a name ends where a quote and a colon stand together. So does the first quote of a
    # text that begins with a colon: that adds a name which is none, and never hides one.
    parts = json_value.split(b'":')
    parts.pop()
    return len({part.rpartition(b'"')[2] for part in parts}) == len(parts)


def refuse_repeated_members(body: bytes) -> None:
    """Refuse an object that names a member twice, because readers disagree on which one counts."""
    try:
        json.loads(body, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the message is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Malformed(f"the member {repeated!r:.80} occurs twice")

    return members
