"""How a payload travels as JSON and comes back as the very value the handler declared."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenure.errors import InvalidPayload


class Shape:
    """Packs values of one declared type and unpacks them, refusing what would come back changed."""

    def __init__(self, declared: Any = Any, rebuild: Callable[[Any], Any] | None = None) -> None:
        """`rebuild` makes the declared value from what callers write, where the two differ."""
        self.declared = declared
        self._rebuild = rebuild
        self._decoder = msgspec.json.Decoder(declared, dec_hook=_from_plain)
        self.unpack = self._decoder.decode

    def pack(self, payload: Any) -> bytes:
        """JSON for the payload, once it is certain that the handler will see an equal value."""
        try:
            raw = _encoder.encode(payload)
            returned = self._decoder.decode(raw)
            faithful = returned == (payload if self._rebuild is None else self._rebuild(payload))
        except RecursionError:
            raise InvalidPayload("the payload is nested too deeply to be carried") from None
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
            self._explain(payload)
            raise InvalidPayload(f"the payload does not fit its handler: {error}") from error
        if not faithful:
            self._explain(payload)
        return raw

    def _explain(self, payload: Any) -> None:
        fault = find_fault(payload)
        if fault is not None:
            path, value, why = fault
            raise InvalidPayload(f"the payload cannot be carried: {path} is {value!r:.80}; {why}")


def find_fault(value: Any, path: str = "$") -> tuple[str, Any, str] | None:
    """The path, value and reason of the first thing that JSON would lose or change, if any."""
    if value is None or isinstance(value, (str, bool, int)):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else (path, value, "JSON has no such number; send None or text")
    if isinstance(value, Mapping):
        return _fault_in_mapping(value, path)
    if isinstance(value, (list, tuple)):
        faults = (find_fault(item, f"{path}[{index}]") for index, item in enumerate(value))
        return next((fault for fault in faults if fault), None)
    return path, value, _advice(value)


def _fault_in_mapping(value: Mapping[Any, Any], path: str) -> tuple[str, Any, str] | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return (
                f"{path}[{key!r}]",
                key,
                "JSON objects have text keys; declare dict[int, …] on the handler or send text",
            )
        if fault := find_fault(item, f"{path}.{key}"):
            return fault
    return None


def _advice(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes need a handler that declares the type bytes, or send text"
    if isinstance(value, (set, frozenset)):
        return "sets need a handler that declares the type set[…], or send a list"
    if callable(value):
        return "callables stay in their process; register a handler and send its arguments instead"
    return f"declare the type {type(value).__qualname__} on the handler's parameter, or send plain JSON values"


def _to_plain(value: Any) -> Any:
    """For what msgspec does not know: pydantic models, recognised by their methods."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"objects of type {type(value).__qualname__} cannot be carried as JSON")


def _from_plain(declared: type, value: Any) -> Any:
    if hasattr(declared, "model_validate"):
        return declared.model_validate(value)
    raise TypeError(f"values of type {declared.__qualname__} cannot be read from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_to_plain)
