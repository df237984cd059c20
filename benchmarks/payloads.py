"""Payloads: text, and what apps mostly send: a list of small objects."""

import json
from typing import Any

Records = list[dict[str, Any]]
Payload = str | Records


def records(size: int) -> Records:
    """As many objects of names, numbers, booleans and text as make about so many bytes of JSON; at least one."""
    made = [_record(0)]
    while len(json.dumps([*made, _record(len(made))], separators=(",", ":"))) <= size:
        made.append(_record(len(made)))
    return made


def _record(number: int) -> dict[str, Any]:
    return {
        "id": 100_000 + number,
        "name": f"article {number}",
        "price": 19.25 + number,
        "count": number % 7,
        "in_stock": number % 3 != 0,
        "note": "delivered by noon",
    }
