"""Handler: a callable or class under a key, with everything about calling it worked out once, at registration."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, get_type_hints

import msgspec

from tenure.definition.context import Context
from tenure.definition.middleware import Middleware, wrap
from tenure.definition.options import JobOptions, check_key, normalise
from tenure.definition.passage import Breakers, always_closed
from tenure.definition.payload import Shape
from tenure.definition.retry import RetryPolicy
from tenure.definition.versions import Upcaster, check_versions, lift
from tenure.errors import InvalidHandler, InvalidPayload

_CONTAINERS = (list, dict, set, bytearray)


class HandlerOptions(JobOptions, total=False):
    """What a handler may be registered with: the options of its jobs, and what is its own."""

    retry: RetryPolicy | None
    payload_version: int
    upcasters: Mapping[int, Upcaster]
    middleware: Sequence[Middleware]


_OPTIONS = JobOptions.__annotations__.keys() | HandlerOptions.__annotations__.keys()


class HandlerClass(Protocol):
    """A handler with hooks; `before_run` and `after_run` are optional, and may be async whether `handle` is or not.

    One fresh instance serves one attempt.
    `handle` may take the context, the payload (decoded into its declared type), or both.
    `after_run(context, outcome)` always runs and cannot change the outcome.
    """

    handle: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """`call(context, value)` runs it with an unpacked payload; `make` makes what `call` is given first.

    `in_process` says that its jobs cannot leave the process that enqueues them.
    """

    key: str
    shape: Shape
    call: Callable[..., Any]
    is_async: bool
    make: Callable[[], Any] | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    retry: RetryPolicy | None = None
    bind: Callable[..., dict[str, Any]] | None = None
    in_process: bool = False
    version: int = 1
    upcasters: Mapping[int, Upcaster] = field(default_factory=dict)
    breakers: Breakers = always_closed

    def unpack(self, payload: bytes, version: int) -> Any:
        """The payload as its declared type, lifted first if it was sent in an older version."""
        return self.shape.unpack(payload if version == self.version else lift(payload, version, self.upcasters))

    def inside(self, middleware: Sequence[Middleware]) -> "Handler":
        """The same handler with its call wrapped."""
        return replace(self, call=wrap(self.call, middleware, is_async=self.is_async)) if middleware else self

    def reaching(self, breakers: Breakers) -> "Handler":
        """The same handler, whose context finds these breakers."""
        return self if breakers is self.breakers else replace(self, breakers=breakers)


def from_function(key: str, function: Callable[..., Any], options: HandlerOptions) -> Handler:
    """A handler whose payload is the object of the function's arguments."""
    check_key(key)
    parameters, wants_context = _parameters(function)
    arguments = _arguments_type(key, function, parameters)
    handler = Handler(
        key=key,
        shape=_shape(function, arguments, rebuild=lambda payload: arguments(**payload)),
        call=_spread(function, parameters, wants_context),
        is_async=inspect.iscoroutinefunction(function),
        bind=_binder(key, parameters),
    )
    return _with_options(handler, dict(options))


def from_class(key: str, cls: type, options: HandlerOptions) -> Handler:
    """A handler class; its class attributes named like options (`max_retries = 3`) are defaults."""
    check_key(key)
    method = getattr(cls, "handle", None)
    if not callable(method):
        raise InvalidHandler(f"handler class {cls.__qualname__!r} for key {key!r} needs a method handle(self, ...)")
    parameters, wants_context = _parameters(method, skip=1)
    if len(parameters) > 1:
        raise InvalidHandler(f"{cls.__qualname__}.handle takes at most a Context and one payload, not {parameters}")
    declared = _hints(method).get(parameters[0].name, Any) if parameters else Any
    own = {name: getattr(cls, name) for name in _OPTIONS - {"name"} if hasattr(cls, name)}
    handler = Handler(
        key=key,
        shape=_shape(method, declared),
        call=_method_call(method, bool(parameters), wants_context),
        is_async=inspect.iscoroutinefunction(method),
        make=cls,
    )
    return _with_options(handler, {**own, **options})


def _with_options(handler: Handler, options: dict[str, Any]) -> Handler:
    retry, version = options.pop("retry", None), options.pop("payload_version", 1)
    upcasters, middleware = options.pop("upcasters", {}), options.pop("middleware", ())
    check_versions(handler.key, version, upcasters)
    return replace(
        handler.inside(middleware), retry=retry, version=version, upcasters=upcasters, defaults=normalise(options)
    )


def _parameters(function: Callable[..., Any], skip: int = 0) -> tuple[list[inspect.Parameter], bool]:
    """The parameters that come from the payload, and whether a Context goes first."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    first = parameters[0] if parameters else None
    wants_context = first is not None and _hints(function).get(first.name) is Context
    if wants_context:
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidHandler(
                f"handler {_name(function)!r} takes {parameter}; name each argument, so that it can be checked"
            )
    return parameters, wants_context


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise InvalidHandler(
            f"the annotations of handler {_name(function)!r} cannot be resolved: {error}; "
            "define the types at module level"
        ) from error


def _shape(function: Callable[..., Any], declared: Any, rebuild: Callable[[Any], Any] | None = None) -> Shape:
    try:
        return Shape(declared, rebuild)
    except TypeError as error:
        raise InvalidHandler(
            f"handler {_name(function)!r} declares a type that cannot be read from JSON: {error}"
        ) from error


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _arguments_type(key: str, function: Callable[..., Any], parameters: list[inspect.Parameter]) -> type:
    hints = _hints(function)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        declared = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, declared))
        else:
            fields.append((parameter.name, declared, msgspec.field(default_factory=_default(parameter.default))))
    return msgspec.defstruct(key, fields, forbid_unknown_fields=True, kw_only=True)


def _default(value: Any) -> Callable[[], Any]:
    """A fresh copy of a container for each attempt; anything else is given as it is, so that `is` still works."""
    return partial(copy.copy, value) if isinstance(value, _CONTAINERS) else lambda: value


def _spread(
    function: Callable[..., Any], parameters: list[inspect.Parameter], wants_context: bool
) -> Callable[..., Any]:
    astuple = msgspec.structs.astuple
    keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if keywords:
        count = len(parameters) - len(keywords)

        def call(context: Context, value: Any) -> Any:
            values = astuple(value)
            leading = (context, *values[:count]) if wants_context else values[:count]
            return function(*leading, **dict(zip(keywords, values[count:], strict=True)))

        return call
    if wants_context:
        return lambda context, value: function(context, *astuple(value))
    return lambda context, value: function(*astuple(value))  # noqa: ARG005 - one signature for every handler


def _method_call(method: Callable[..., Any], takes_payload: bool, wants_context: bool) -> Callable[..., Any]:
    if takes_payload and wants_context:
        return lambda instance, context, value: method(instance, context, value)
    if takes_payload:
        return lambda instance, context, value: method(instance, value)  # noqa: ARG005
    if wants_context:
        return lambda instance, context, value: method(instance, context)  # noqa: ARG005
    return lambda instance, context, value: method(instance)  # noqa: ARG005


def _binder(key: str, parameters: list[inspect.Parameter]) -> Callable[..., dict[str, Any]]:
    """Turns a call's arguments into the payload; plain keywords take the short way (inspect costs 5 µs)."""
    known = {parameter.name for parameter in parameters}
    required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
    positional = any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters)
    signature = inspect.Signature(parameters)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = kwargs.keys()
        if not args and not positional and required <= names <= known:
            return kwargs
        try:
            return dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidPayload(f"handler {key!r} was given the wrong arguments: {error}") from None

    return bind
