"""Fields: the parameters of an address or of a form, as a query or a command; and back."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from tenure.errors import InvalidFilter
from tenure.suggestions import nearest

S = TypeVar("S")
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}


def from_fields(
    kind: type[S], parameters: Iterable[tuple[str, str]], fixed: Mapping[str, str] | None = None, *, where: str
) -> S:
    """The value that these parameters mean; raises InvalidFilter for a parameter that is not known or wrong.

    A parameter that occurs several times is a list; empty ones are left out. `fixed` are those of the path.
    """
    struct: Any = kind
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    values: dict[str, Any] = dict(fixed or {})
    for name, value in parameters:
        if not value or name in (fixed or ()):
            continue
        if name not in fields:
            guess = nearest(name, fields)
            advice = f"did you mean {guess!r}?" if guess else f"it has {', '.join(fields) or 'none'}"
            raise InvalidFilter(f"{where} has no parameter {name!r}; {advice}")
        if _is_list(fields[name].type):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise InvalidFilter(f"the parameter {name!r} of {where} was given twice")
        else:
            values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidFilter(_fault(str(error), values, fields, where)) from error


def _fault(text: str, values: Mapping[str, Any], fields: Mapping[str, msgspec.structs.FieldInfo], where: str) -> str:
    """What is wrong, in words; msgspec names the parameter after `$.`."""
    reason, _, path = text.partition(" - at `$.")
    name = path.partition("`")[0].partition("[")[0]
    if missing := re.search(r"missing required field `(\w+)`", reason):
        return f"{where} needs the parameter {missing[1]!r}"
    if name not in fields:
        return f"a parameter of {where} is wrong: {text}"
    choices = [str(each) for each in get_args(fields[name].type)] if get_origin(fields[name].type) is Literal else []
    wanted = f"one of {', '.join(choices)}" if choices else _KINDS.get(fields[name].type, "something else")
    return f"the parameter {name!r} of {where} must be {wanted}, not {str(values.get(name))[:80]!r}"


def to_fields(value: Any) -> list[tuple[str, str]]:
    """The parameters from which `from_fields` makes this value."""
    pairs: list[tuple[str, str]] = []
    for name, item in msgspec.to_builtins(value).items():
        items = item if isinstance(item, list | tuple) else [item]
        pairs += [(name, _text(each)) for each in items if each is not None and each != ""]
    return pairs


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_list(declared: Any) -> bool:
    return get_origin(declared) is tuple
