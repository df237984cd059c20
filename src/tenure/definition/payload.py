"""Payloads: encoded as JSON, and decoded to exactly the value that the handler declares.

A payload that JSON would lose or change is refused when the job is enqueued; the error names the path of the value.
Payloads of older versions are converted by the upcasters of the handler.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from tenure.errors import InvalidHandler, InvalidPayload

Upcaster = Callable[[Any], Any]
_MISSING = object()
_ERROR_PATH = re.compile(r"`\$([^`]*)`$")
_PATH_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


class PayloadShape(Protocol):
    """How a handler's payload becomes JSON in a message, and a value again in the worker."""

    def pack(self, payload: Any) -> bytes: ...

    def unpack(self, raw: bytes, /) -> Any: ...


class Shape:
    """Encodes and decodes values of one declared type, and refuses values that would not come back equal."""

    def __init__(self, declared: Any = Any, rebuild: Callable[[Any], Any] | None = None) -> None:
        """`rebuild` makes the declared value from the value that callers write, if the two differ."""
        self.declared = declared
        self._rebuild = rebuild
        self._decoder = msgspec.json.Decoder(declared, dec_hook=_from_plain)
        self.unpack = self._decoder.decode

    def pack(self, payload: Any) -> bytes:
        """The payload as JSON, after a check that the handler will get an equal value."""
        raw = b""
        try:
            raw = _encoder.encode(payload)
            returned = self.unpack(raw)
            if returned == (payload if self._rebuild is None else self._rebuild(payload)):
                return raw
            lost = _find_lost(payload, returned)
        except RecursionError:
            raise InvalidPayload("the payload is nested too deeply to be carried") from None
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise InvalidPayload(_misfit(payload, error) if raw else _obstacle(payload, error)) from error
        if lost is not None:
            raise InvalidPayload(_not_carried(lost))
        return raw


def _obstacle(payload: Any, error: Exception) -> str:
    """Why the payload could not be encoded."""
    fault = _find_unencodable(payload)
    return _not_carried(fault) if fault else f"the payload cannot be carried: {error}"


def _misfit(payload: Any, error: Exception) -> str:
    """Why the encoded payload could not be read as the declared type."""
    fault = _find_rejected(payload, str(error))
    cause = f"; {fault.path} is {fault.value!r:.80}; {fault.advice}" if fault else ""
    return f"the payload does not fit its handler: {error}{cause}"


def to_json(value: Any) -> bytes:
    """The value as a payload would carry it; raises TypeError or ValueError if JSON cannot."""
    return _encoder.encode(value)


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


def upcast(payload: bytes, version: int, upcasters: Mapping[int, Upcaster]) -> bytes:
    """The payload in the newest version, converted step by step from the version in which it was sent."""
    value = msgspec.json.decode(payload)
    while version in upcasters:
        value = upcasters[version](value)
        version += 1
    return msgspec.json.encode(value)


class JsonFault(NamedTuple):
    """The path of a value that plain JSON cannot carry, the value, and what the user can do about it."""

    path: str
    value: Any
    advice: str


def find_json_fault(value: Any, root: str = "$") -> JsonFault | None:
    """The first part of a value that plain JSON would lose or change, if there is one."""
    return next((_fault(part, root) for part in _odd_parts(value)), None)


class _OddPart(NamedTuple):
    """A part of a payload that plain JSON has no type for; a declared type may still bring it back."""

    steps: tuple[Any, ...]
    value: Any
    survives_as: Callable[[Any], bool]
    is_key: bool = False


def _find_lost(sent: Any, returned: Any) -> JsonFault | None:
    """The first part that did not come back; a tuple may return as a list, and text as the type declared for it."""
    return next((_fault(part) for part in _odd_parts(sent) if _is_lost(part, returned)), None)


def _find_unencodable(sent: Any) -> JsonFault | None:
    """The first part that cannot be encoded at all."""
    for part in _odd_parts(sent):
        try:
            _encoder.encode({part.value: None} if part.is_key else part.value)
        except (TypeError, ValueError, OverflowError):
            if part.is_key:
                return _fault(part)
            if not _members(part.value):
                return _fault(part)._replace(advice=_advice_to_replace(part.value))
    return None


def _find_rejected(sent: Any, message: str) -> JsonFault | None:
    """The part at the path in a decoder's error message, if plain JSON cannot carry it."""
    path = _ERROR_PATH.search(message)
    names = [step[1] for step in _PATH_STEP.finditer(path[1])] if path else []
    return next((_fault(part) for part in _odd_parts(sent) if _is_at(part.steps, names)), None)


def _is_at(steps: tuple[Any, ...], names: list[str | None]) -> bool:
    """Decoders name members but not always the index of an item; such a step is None in `names`."""
    return len(steps) == len(names) and all(name in (None, step) for step, name in zip(steps, names, strict=True))


def _odd_parts(value: Any, steps: tuple[Any, ...] = ()) -> Iterator[_OddPart]:
    if value is None or isinstance(value, (str, int)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            yield _OddPart(steps, value, lambda _: False)
    elif isinstance(value, dict):
        yield from _odd_members(value, steps)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _odd_parts(item, (*steps, index))
    elif members := _members(value):
        yield _OddPart(steps, value, lambda back: isinstance(back, type(value)))
        for name in members:
            yield from _odd_parts(getattr(value, name), (*steps, name))
    else:
        yield _OddPart(steps, value, lambda back: bool(back == value))


def _odd_members(members: dict[Any, Any], steps: tuple[Any, ...]) -> Iterator[_OddPart]:
    for key, item in members.items():
        if not isinstance(key, str):
            yield _OddPart((*steps, key), key, lambda _: True, is_key=True)
        yield from _odd_parts(item, (*steps, key))


def _members(value: Any) -> Iterable[str]:
    """The field names of a dataclass, a msgspec struct or a pydantic model."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value)]
    fields: Iterable[str] = getattr(type(value), "__struct_fields__", ()) or getattr(type(value), "model_fields", ())
    return fields


def _is_lost(part: _OddPart, returned: Any) -> bool:
    for step in part.steps:
        if isinstance(returned, dict):
            if step not in returned:
                return True
            returned = returned[step]
        elif isinstance(returned, (list, tuple)):
            returned = returned[step]
        else:
            returned = getattr(returned, str(step), _MISSING)
            if returned is _MISSING:  # inside a declared type that stores it under another name
                return isinstance(part.value, float)
    return not part.survives_as(returned)


def _fault(part: _OddPart, root: str = "$") -> JsonFault:
    path = root + "".join(f".{step}" if isinstance(step, str) else f"[{step!r}]" for step in part.steps)
    if part.is_key:
        return JsonFault(
            path, part.value, "JSON objects have text keys; declare dict[int, …] on the handler or send text"
        )
    return JsonFault(path, part.value, _advice(part.value))


def _not_carried(fault: JsonFault) -> str:
    return f"the payload cannot be carried: {fault.path} is {fault.value!r:.80}; {fault.advice}"


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


def _to_plain(value: Any) -> Any:
    """Encodes what msgspec does not know: handles of jobs and pydantic models, recognised by their methods."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    return plain_text(value)


def plain_text(value: Any) -> str:
    """Encodes a text of another type than `str`, such as the handle of a job, which msgspec refuses."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"objects of type {type(value).__qualname__} cannot be carried as JSON")


def _from_plain(declared: type, value: Any) -> Any:
    if hasattr(declared, "model_validate"):
        return declared.model_validate(value)
    raise TypeError(f"values of type {declared.__qualname__} cannot be read from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_to_plain)
