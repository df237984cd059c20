"""Parameters: how the parameters of a handler become its payload, and a payload the arguments of a call."""

import copy
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args, get_type_hints

import msgspec

from tenure.definition.callables import name_of
from tenure.definition.context import Context
from tenure.definition.job import JobOptions
from tenure.definition.parent import PARENT_ERROR, PARENT_RESULT, FromParent, ParentArguments
from tenure.definition.payload import Shape
from tenure.errors import InvalidHandler, InvalidPayload

_CONTAINERS = (list, dict, set, bytearray)


def parameters_of(function: Callable[..., Any], skip: int = 0) -> tuple[list[inspect.Parameter], bool]:
    """The parameters that the payload fills, and whether the first argument is a Context."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    first, hints = parameters[0] if parameters else None, hints_of(function)
    wants_context = first is not None and hints.get(first.name) is Context and first.kind is not first.KEYWORD_ONLY
    if wants_context:
        parameters = parameters[1:]
    elif first is not None and first.name in ("self", "cls") and first.name not in hints:
        raise InvalidHandler(
            f"handler {name_of(function)!r} is a method, and a worker has no object to call it on; write a function "
            "outside the class, or a handler class for app.register"
        )
    for parameter in parameters:
        if hints.get(parameter.name) is Context or Context in get_args(hints.get(parameter.name)):
            raise InvalidHandler(
                f"handler {name_of(function)!r} takes its Context as {str(parameter)!r}; write it as the first "
                f"parameter, annotated with Context alone: def {function.__name__}(ctx: Context, ...)"
            )
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidHandler(
                f"handler {name_of(function)!r} takes {parameter}; name each argument, so that it can be checked"
            )
    return parameters, wants_context


def parent_arguments(key: str, parameters: Sequence[inspect.Parameter]) -> ParentArguments:
    names: dict[Any, list[str]] = {PARENT_RESULT: [], PARENT_ERROR: []}
    for parameter in parameters:
        if isinstance(parameter.default, FromParent):
            names[parameter.default].append(parameter.name)
    if any(len(each) > 1 for each in names.values()):
        raise InvalidHandler(f"handler {key!r} takes the same value from its parent twice; use one of the parameters")
    return ParentArguments("".join(names[PARENT_RESULT]), "".join(names[PARENT_ERROR]))


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise InvalidHandler(
            f"the annotations of handler {name_of(function)!r} cannot be resolved: {error}; "
            "define the types at module level"
        ) from error


def shape_of(function: Callable[..., Any], declared: Any, rebuild: Callable[[Any], Any] | None = None) -> Shape:
    try:
        return Shape(declared, rebuild)
    except TypeError as error:
        raise InvalidHandler(
            f"handler {name_of(function)!r} declares a type that cannot be read from JSON: {error}"
        ) from error


def arguments_type(key: str, function: Callable[..., Any], parameters: list[inspect.Parameter]) -> type:
    hints = hints_of(function)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        declared = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty or isinstance(parameter.default, FromParent):
            fields.append((parameter.name, declared))
        else:
            fields.append(
                (parameter.name, declared, msgspec.field(default_factory=_default_factory(parameter.default)))
            )
    return msgspec.defstruct(key, fields, forbid_unknown_fields=True, kw_only=True)


def _default_factory(value: Any) -> Callable[[], Any]:
    """Copies a container for each attempt; other values are passed unchanged, so that `is` still works."""
    return partial(copy.copy, value) if isinstance(value, _CONTAINERS) else lambda: value


def function_call(
    function: Callable[..., Any], parameters: list[inspect.Parameter], wants_context: bool, is_provided: bool
) -> Callable[..., Any]:
    """How to call a function with a context and its decoded payload; if `is_provided`, with values by name too."""
    astuple = msgspec.structs.astuple
    keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if keywords or is_provided:
        count = len(parameters) - len(keywords)

        def call(context: Context, value: Any, **provided: Any) -> Any:
            values = astuple(value)
            leading = (context, *values[:count]) if wants_context else values[:count]
            return function(*leading, **dict(zip(keywords, values[count:], strict=True)), **provided)

        return call
    if wants_context:
        return lambda context, value: function(context, *astuple(value))
    return lambda context, value: function(*astuple(value))  # noqa: ARG005 - one signature for every handler


def method_call(
    method: Callable[..., Any], takes_payload: bool, wants_context: bool, is_provided: bool
) -> Callable[..., Any]:
    if is_provided:

        def call(instance: Any, context: Context, value: Any, **provided: Any) -> Any:
            leading = (context,) if wants_context else ()
            return method(instance, *leading, *((value,) if takes_payload else ()), **provided)

        return call
    if takes_payload and wants_context:
        return lambda instance, context, value: method(instance, context, value)
    if takes_payload:
        return lambda instance, context, value: method(instance, value)  # noqa: ARG005
    if wants_context:
        return lambda instance, context, value: method(instance, context)  # noqa: ARG005
    return lambda instance, context, value: method(instance)  # noqa: ARG005


def binder(key: str, parameters: list[inspect.Parameter]) -> Callable[..., dict[str, Any]]:
    """Turns the arguments of a call into the payload; most calls need no inspect, which costs 5 µs."""
    known = {parameter.name for parameter in parameters}
    required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
    order = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    is_plain = not any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters)
    signature = inspect.Signature(parameters)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        payload = dict(zip(order, args, strict=False), **kwargs) if args else kwargs
        names = payload.keys()
        if is_plain and len(payload) == len(args) + len(kwargs) and (names == known or required <= names <= known):
            return payload
        try:
            return dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            options = sorted((kwargs.keys() - known) & JobOptions.__annotations__.keys())
            hint = f"; options go before: using({options[0]}=...).enqueue(...)" if options else ""
            raise InvalidPayload(f"handler {key!r} was given the wrong arguments: {error}{hint}") from None

    return bind
