"""Arguments that come from the job before: its result, or the error with which it ended.

A function declares them by their default: `def notify(user: int, total: float = PARENT_RESULT)`. The worker that ends
the job before adds them to the payload of the follower, so they are no part of the payload until then.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tenure.definition.payload import Shape
from tenure.errors import InvalidPayload

FAULT = "parent fault"  # a member of the payload that no argument can be called: why the result is missing


class FromParent:
    """The default of an argument that comes from the job before."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


PARENT_RESULT: Any = FromParent("PARENT_RESULT")
PARENT_ERROR: Any = FromParent("PARENT_ERROR")


class ParentArguments(Struct, frozen=True):
    """The names of the arguments for the result and for the error; empty if there is none."""

    result: str = ""
    error: str = ""

    def unfilled(self, payload: Mapping[str, Any]) -> "ParentArguments":
        """Those that this payload does not contain."""
        return ParentArguments(
            "" if self.result in payload else self.result, "" if self.error in payload else self.error
        )

    def names(self) -> list[str]:
        return [name for name in (self.result, self.error) if name]


NO_PARENT_ARGUMENTS = ParentArguments()


class FollowerShape:
    """The payload of a function that takes arguments from the job before it."""

    def __init__(self, key: str, parent: ParentArguments, make: Callable[[list[str]], Shape]) -> None:
        """`make` returns the shape of a payload without the arguments of these names."""
        self._key = key
        self._parent = parent
        self._make = make
        self._complete = make([])

    def pack(self, payload: Any) -> bytes:
        """The payload of a job that follows no other, so it must contain all arguments."""
        if missing := self._parent.unfilled(payload).names():
            raise InvalidPayload(
                f"handler {self._key!r} takes {missing[0]!r} from the job that it follows; enqueue it with then=, "
                "on_failure= or chain= of another job, or give the argument"
            )
        return self._complete.pack(payload)

    def pack_follower(self, payload: Any) -> bytes:
        """The payload before the worker has added the arguments from the job before."""
        return self._make(self._parent.unfilled(payload).names()).pack(payload)

    def unpack(self, raw: bytes, /) -> Any:
        try:
            return self._complete.unpack(raw)
        except msgspec.ValidationError as error:
            fault = msgspec.json.decode(raw).get(FAULT)
            if fault is None:
                raise
            raise InvalidPayload(f"handler {self._key!r} cannot take the result of its parent: {fault}") from error
