"""What JSON alone would lose or change, and whether a declared type brought it back."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

_UNSEEN = object()
_AT = re.compile(r"`\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


class Fault(NamedTuple):
    """The path of a value that plain JSON cannot carry, the value, and what to do about it."""

    path: str
    value: Any
    advice: str


class _Suspect(NamedTuple):
    steps: tuple[Any, ...]
    value: Any
    survives_as: Callable[[Any], bool]
    is_key: bool = False


def find_fault(value: Any, root: str = "$") -> Fault | None:
    """The first thing in a value that plain JSON would lose or change, if any."""
    return next((_fault(suspect, root) for suspect in _suspects(value)), None)


def find_loss(sent: Any, returned: Any) -> Fault | None:
    """The first thing that did not come back; tuples may return as lists, and text as the type declared for it."""
    return next((_fault(suspect) for suspect in _suspects(sent) if _is_lost(suspect, returned)), None)


def find_uncarriable(sent: Any, encode: Callable[[Any], bytes]) -> Fault | None:
    """The first thing that cannot be encoded at all."""
    for suspect in _suspects(sent):
        try:
            encode({suspect.value: None} if suspect.is_key else suspect.value)
        except (TypeError, ValueError, OverflowError):
            if suspect.is_key:
                return _fault(suspect)
            if not _members(suspect.value):
                return _fault(suspect)._replace(advice=_advice_to_replace(suspect.value))
    return None


def find_culprit(sent: Any, complaint: str) -> Fault | None:
    """What stands where a decoder's complaint points, if plain JSON cannot carry it."""
    place = _AT.search(complaint)
    names = [step[1] for step in _STEP.finditer(place[1])] if place else []
    return next((_fault(suspect) for suspect in _suspects(sent) if _stands_at(suspect.steps, names)), None)


def _stands_at(steps: tuple[Any, ...], names: list[str | None]) -> bool:
    """Decoders name members but not always items, which are None here."""
    return len(steps) == len(names) and all(name in (None, step) for step, name in zip(steps, names, strict=True))


def _suspects(value: Any, steps: tuple[Any, ...] = ()) -> Iterator[_Suspect]:
    if value is None or isinstance(value, (str, int)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            yield _Suspect(steps, value, lambda _: False)
    elif isinstance(value, dict):
        yield from _suspects_in(value, steps)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _suspects(item, (*steps, index))
    elif members := _members(value):
        yield _Suspect(steps, value, lambda back: isinstance(back, type(value)))
        for name in members:
            yield from _suspects(getattr(value, name), (*steps, name))
    else:
        yield _Suspect(steps, value, lambda back: bool(back == value))


def _suspects_in(members: dict[Any, Any], steps: tuple[Any, ...]) -> Iterator[_Suspect]:
    for key, item in members.items():
        if not isinstance(key, str):
            yield _Suspect((*steps, key), key, lambda _: True, is_key=True)
        yield from _suspects(item, (*steps, key))


def _members(value: Any) -> Iterable[str]:
    """The field names of a dataclass, a msgspec struct or a pydantic model."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value)]
    fields: Iterable[str] = getattr(type(value), "__struct_fields__", ()) or getattr(type(value), "model_fields", ())
    return fields


def _is_lost(suspect: _Suspect, returned: Any) -> bool:
    for step in suspect.steps:
        if isinstance(returned, dict):
            if step not in returned:
                return True
            returned = returned[step]
        elif isinstance(returned, (list, tuple)):
            returned = returned[step]
        else:
            returned = getattr(returned, str(step), _UNSEEN)
            if returned is _UNSEEN:  # inside a declared type that took it under another name
                return isinstance(suspect.value, float)
    return not suspect.survives_as(returned)


def _fault(suspect: _Suspect, root: str = "$") -> Fault:
    path = root + "".join(f".{step}" if isinstance(step, str) else f"[{step!r}]" for step in suspect.steps)
    if suspect.is_key:
        return Fault(
            path, suspect.value, "JSON objects have text keys; declare dict[int, …] on the handler or send text"
        )
    return Fault(path, suspect.value, _advice(suspect.value))


def _advice(value: Any) -> str:
    if isinstance(value, float):
        return "JSON has no such number; send None or text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes need a handler that declares the type bytes, or send text"
    if isinstance(value, (set, frozenset)):
        return "sets need a handler that declares the type set[…], or send a list"
    if callable(value):
        return "callables stay in their process; register a handler and send its arguments instead"
    return f"declare the type {type(value).__qualname__} on the handler's parameter, or send plain JSON values"


def _advice_to_replace(value: Any) -> str:
    if callable(value):
        return _advice(value)
    return (
        f"{type(value).__qualname__} objects cannot be carried; send plain JSON values, a dataclass, "
        "a msgspec Struct or a pydantic model"
    )
