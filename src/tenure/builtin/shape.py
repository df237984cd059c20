"""CheckedShape: a payload that is judged where it is packed, so that a refusal reaches whoever enqueues."""

from collections.abc import Callable
from typing import Any

from tenure.definition.payload import Shape


class CheckedShape(Shape):
    """The worker judges again: its settings count, and a message may come from anybody who holds a key."""

    def __init__(self, declared: Any, check: Callable[[Any], object], rebuild: Callable[[Any], Any] | None = None):
        super().__init__(declared, rebuild)
        self._check = check

    def pack(self, payload: Any) -> bytes:
        raw = super().pack(payload)
        self._check(self.unpack(raw))
        return raw
