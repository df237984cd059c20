"""Payload versions: an older payload is lifted step by step to what the handler reads today."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenure.errors import InvalidHandler

Upcaster = Callable[[Any], Any]


def check_versions(key: str, version: int, upcasters: Mapping[int, Upcaster]) -> None:
    """Refuse a handler that could not read every older version of its payload."""
    if type(version) is not int or version < 1:
        raise InvalidHandler(f"payload_version of handler {key!r} must be a whole number from 1 on, got {version!r}")
    wanted = set(range(1, version))
    if set(upcasters) != wanted:
        odd = min(wanted ^ set(upcasters))
        fault = f"has none for version {odd}" if odd in wanted else f"has one for version {odd!r}"
        raise InvalidHandler(
            f"handler {key!r} reads version {version} of its payload and {fault}; give an upcaster for each of 1 … "
            f"{version - 1}, which turns a payload of that version into one of the next"
        )


def lift(payload: bytes, version: int, upcasters: Mapping[int, Upcaster]) -> bytes:
    """The payload as the newest version, from the one it was sent in."""
    value = msgspec.json.decode(payload)
    while version in upcasters:
        value = upcasters[version](value)
        version += 1
    return msgspec.json.encode(value)
