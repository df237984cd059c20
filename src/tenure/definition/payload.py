"""How a payload travels as JSON and comes back as the very value the handler declared."""

from collections.abc import Callable
from typing import Any

import msgspec

from tenure.definition.fidelity import Fault, find_culprit, find_loss, find_uncarriable
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
            raw = self._encoded(payload)
            returned = self._returned(payload, raw)
            if returned == (payload if self._rebuild is None else self._rebuild(payload)):
                return raw
            loss = find_loss(payload, returned)
        except RecursionError:
            raise InvalidPayload("the payload is nested too deeply to be carried") from None
        except InvalidPayload:
            raise
        except (TypeError, ValueError) as error:
            raise InvalidPayload(f"the payload does not fit its handler: {error}") from error
        if loss is not None:
            raise InvalidPayload(_uncarriable(loss))
        return raw

    def _encoded(self, payload: Any) -> bytes:
        try:
            return _encoder.encode(payload)
        except (TypeError, ValueError, OverflowError) as error:
            fault = find_uncarriable(payload, _encoder.encode)
            raise InvalidPayload(_uncarriable(fault) if fault else f"the payload cannot be carried: {error}") from error

    def _returned(self, payload: Any, raw: bytes) -> Any:
        try:
            return self._decoder.decode(raw)
        except (msgspec.MsgspecError, ValueError) as error:
            fault = find_culprit(payload, str(error))
            cause = f"; {fault.path} is {fault.value!r:.80}; {fault.advice}" if fault else ""
            raise InvalidPayload(f"the payload does not fit its handler: {error}{cause}") from error


def _uncarriable(fault: Fault) -> str:
    return f"the payload cannot be carried: {fault.path} is {fault.value!r:.80}; {fault.advice}"


def _to_plain(value: Any) -> Any:
    """For what msgspec does not know: pydantic models, recognised by their methods."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise TypeError(f"objects of type {type(value).__qualname__} cannot be carried as JSON")


def _from_plain(declared: type, value: Any) -> Any:
    if hasattr(declared, "model_validate"):
        return declared.model_validate(value)
    raise TypeError(f"values of type {declared.__qualname__} cannot be read from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_to_plain)
