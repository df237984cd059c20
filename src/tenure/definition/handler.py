"""Handler: a function or class registered under a key, and how to call it, worked out once at registration.

Registry holds the handlers and says which of them a queue may run.
Middleware are plain functions around the call of a handler; the first one is the outermost.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tenure.definition.callables import check_callable, is_async, name_of, refuse_generator
from tenure.definition.context import Breakers, Context, always_closed
from tenure.definition.error_rules import ErrorMatch, ErrorRules, error_rules
from tenure.definition.job import JobOptions, normalise
from tenure.definition.limits import check_key
from tenure.definition.parameters import (
    arguments_type,
    binder,
    function_call,
    hints_of,
    method_call,
    parameters_of,
    parent_arguments,
    shape_of,
)
from tenure.definition.parent import (
    NO_PARENT_ARGUMENTS,
    FollowerShape,
    ParentArguments,
)
from tenure.definition.payload import PayloadShape, Shape, Upcaster, check_versions, upcast
from tenure.definition.provided import Providers, provided_arguments
from tenure.definition.queues import Queues
from tenure.definition.retry import Backoff, Policy, RetryPolicy, check_policy
from tenure.errors import ForbiddenHandler, InvalidHandler, UnknownHandler
from tenure.suggestions import nearest

Middleware = Callable[[Context, Callable[[], Any]], Any]


class HandlerOptions(JobOptions, total=False):
    """The options of `@app.job`: the defaults for its jobs, and options of the handler itself."""

    retry: RetryPolicy | None
    retry_on: ErrorMatch | None
    give_up_on: ErrorMatch | None
    payload_version: int
    upcasters: Mapping[int, Upcaster]
    middleware: Sequence[Middleware]


_OPTIONS = JobOptions.__annotations__.keys() | HandlerOptions.__annotations__.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """`call(context, value)` runs it with a decoded payload.

    For a handler class, `make` creates an instance, which `call` takes as its first argument.
    With `in_process`, its jobs cannot leave the process that enqueues them.
    `returns` is the type that it declares for its result.
    A function that takes a Context has the name of that parameter in `context_parameter`.
    `provided` are the types of the arguments that the app provides, by name; `call` takes them by name.
    `observers` are entered around each attempt (`tenure.execution.observers`).
    """

    key: str
    shape: PayloadShape
    call: Callable[..., Any]
    is_async: bool
    make: Callable[[], Any] | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    retry: Policy | None = None
    errors: ErrorRules | None = None
    bind: Callable[..., dict[str, Any]] | None = None
    context_parameter: str | None = None
    parent: ParentArguments = NO_PARENT_ARGUMENTS
    in_process: bool = False
    version: int = 1
    upcasters: Mapping[int, Upcaster] = field(default_factory=dict)
    breakers: Breakers = always_closed
    returns: Any = Any
    provided: Mapping[str, Any] = field(default_factory=dict)
    observers: tuple[Any, ...] = ()

    def unpack(self, payload: bytes, version: int) -> Any:
        """The payload as its declared type; a payload of an older version is converted first."""
        return self.shape.unpack(payload if version == self.version else upcast(payload, version, self.upcasters))

    def pack_follower(self, payload: Any) -> bytes:
        """The payload of a job that follows another, which may lack the arguments that come from that job."""
        return self.shape.pack_follower(payload) if isinstance(self.shape, FollowerShape) else self.shape.pack(payload)

    def with_middleware(self, middleware: Sequence[Middleware]) -> "Handler":
        """The same handler with its call wrapped."""
        return replace(self, call=_wrap(self.call, middleware, wraps_async=self.is_async)) if middleware else self

    def with_observers(self, observers: Sequence[Any]) -> "Handler":
        """The same handler, with these around each attempt."""
        return replace(self, observers=tuple(observers)) if observers else self

    def with_breakers(self, breakers: Breakers) -> "Handler":
        """The same handler; its context finds these breakers."""
        return self if breakers is self.breakers else replace(self, breakers=breakers)

    def with_providers(self, providers: Providers) -> "Handler":
        """The same handler; its call opens and closes what the app provides."""
        if not self.provided:
            return self
        open_and_call = providers.acall if self.is_async else providers.call
        return replace(self, call=partial(_call_provided, open_and_call, self.call, self.provided))

    def with_default_retry(self, default: Policy) -> "Handler":
        """The same handler; this policy decides where its own does not."""
        if isinstance(self.retry, Backoff):
            return self
        return replace(self, retry=self.retry.with_default(default) if self.retry else default)


def from_function(key: str, function: Callable[..., Any], options: HandlerOptions) -> Handler:
    """A handler whose payload is the object of the function's arguments."""
    check_key(key)
    refuse_generator(function, f"handler {key!r}")
    parameters, wants_context = parameters_of(function)
    parameters, provided = provided_arguments(f"handler {key!r}", parameters, hints_of(function))
    parent = parent_arguments(key, parameters)

    def shape_without(names: Iterable[str]) -> Shape:
        carried = [parameter for parameter in parameters if parameter.name not in names]
        arguments = arguments_type(key, function, carried)
        return shape_of(function, arguments, rebuild=lambda payload: arguments(**payload))

    handler = Handler(
        key=key,
        shape=FollowerShape(key, parent, shape_without) if parent.names() else shape_without(()),
        parent=parent,
        call=function_call(function, parameters, wants_context, bool(provided)),
        is_async=is_async(function),
        provided=provided,
        bind=binder(key, parameters),
        returns=hints_of(function).get("return", Any),
        context_parameter=next(iter(inspect.signature(function).parameters)) if wants_context else None,
    )
    return _with_options(handler, dict(options))


def from_class(key: str, cls: Any, options: HandlerOptions) -> Handler:
    """A handler from a class; class attributes named like options (`max_retries = 3`) are defaults.

    Each attempt gets a new instance. `handle` may take the context, the payload (as its declared type), or both.
    `before_run` and `after_run` are optional hooks and may be async even if `handle` is not.
    `after_run(context, outcome)` always runs and cannot change the outcome.
    """
    check_key(key)
    if not isinstance(cls, type):
        what = f"the function {name_of(cls)!r}" if inspect.isroutine(cls) else f"{cls!r:.80}"
        raise InvalidHandler(
            f"app.register({key!r}, ...) takes a class with a method handle(self, ...), got {what}; "
            f"write @app.job(name={key!r}) above a function"
        )
    method = getattr(cls, "handle", None)
    if not callable(method):
        raise InvalidHandler(f"handler class {cls.__qualname__!r} for key {key!r} needs a method handle(self, ...)")
    for name in ("handle", "before_run", "after_run"):
        refuse_generator(getattr(cls, name, None), f"{cls.__qualname__}.{name} for key {key!r}")
    parameters, wants_context = parameters_of(method, skip=1)
    parameters, provided = provided_arguments(f"handler {key!r}", parameters, hints_of(method))
    if len(parameters) > 1:
        raise InvalidHandler(f"{cls.__qualname__}.handle takes at most a Context and one payload, not {parameters}")
    declared = hints_of(method).get(parameters[0].name, Any) if parameters else Any
    own = {name: getattr(cls, name) for name in _OPTIONS - {"name"} if hasattr(cls, name)}
    handler = Handler(
        key=key,
        shape=shape_of(method, declared),
        call=method_call(method, bool(parameters), wants_context, bool(provided)),
        is_async=is_async(method),
        provided=provided,
        make=cls,
        returns=hints_of(method).get("return", Any),
    )
    return _with_options(handler, {**own, **options})


def _with_options(handler: Handler, options: dict[str, Any]) -> Handler:
    retry = check_policy(options.pop("retry", None), f"handler {handler.key!r}")
    errors = error_rules(handler.key, options.pop("retry_on", None), options.pop("give_up_on", None))
    version = options.pop("payload_version", 1)
    upcasters, middleware = options.pop("upcasters", {}), options.pop("middleware", ())
    check_versions(handler.key, version, upcasters)
    _check_middleware(handler, middleware)
    return replace(
        handler.with_middleware(middleware),
        retry=retry,
        errors=errors,
        version=version,
        upcasters=upcasters,
        defaults=normalise(options),
    )


def _wrap(call: Callable[..., Any], middleware: Sequence[Middleware], *, wraps_async: bool) -> Callable[..., Any]:
    """The call inside every middleware of its kind: functions around functions, coroutines around coroutines."""
    for each in reversed(middleware):
        if is_async(each) is wraps_async:
            call = partial(_call_inside, each, call)
    return call


def _check_middleware(handler: Handler, middleware: Any) -> None:
    """Refuse what cannot wrap this handler: a middleware that is left out might be the one that checks permissions."""
    if not isinstance(middleware, Sequence):
        raise InvalidHandler(f"the middleware of handler {handler.key!r} must be a list, got {middleware!r:.80}")
    for each in middleware:
        check_callable(each, "a middleware")
        if is_async(each) is not handler.is_async:
            kind, other = ("async", "a plain function") if handler.is_async else ("a plain function", "async")
            raise InvalidHandler(
                f"handler {handler.key!r} is {kind}, and its middleware {name_of(each)!r} is {other}, so it would not "
                f"be called; write it as {'async def' if handler.is_async else 'def'} for this handler"
            )


def _call_inside(middleware: Middleware, call: Callable[..., Any], *arguments: Any, **provided: Any) -> Any:
    return middleware(arguments[-2], partial(call, *arguments, **provided))  # the context is the last but one


def _call_provided(
    open_and_call: Callable[..., Any], call: Callable[..., Any], wanted: Mapping[str, Any], *arguments: Any
) -> Any:
    return open_and_call(call, wanted, arguments[-2], *arguments)


class Registry:
    """Handlers by key. A queue with an allowlist runs only the handlers in it; an empty allowlist denies all.

    A handler of the app replaces the built-in handler with the same key.
    """

    def __init__(
        self,
        allowlists: Mapping[str, Iterable[str]] | None = None,
        builtins: Iterable[Handler] = (),
        breakers: Breakers = always_closed,
        missing: Mapping[str, str] | None = None,
        queues: Queues | None = None,
        retry: Policy | None = None,
    ) -> None:
        """All handlers reach `breakers` through their context. `missing` says why a handler is not available here.

        `queues` learn the queues of the handlers. `retry` is the policy of the app.
        """
        self.providers = Providers()
        self._queues = queues or Queues()
        self._own: dict[str, Handler] = {}
        self._breakers = breakers
        self._missing = missing or {}
        self._retry = retry
        self._builtins = {handler.key: self._adopt(handler) for handler in builtins}
        self._wrapped = dict(self._builtins)
        self._middleware: list[Middleware] = []
        self._observers: list[Any] = []
        self._allowlists = {queue: frozenset(keys) for queue, keys in (allowlists or {}).items()}

    def add(self, handler: Handler) -> None:
        if handler.key in self._own:
            raise InvalidHandler(
                f"a handler is already registered under {handler.key!r}; pass name=... to give this one another key"
            )
        if queue := handler.defaults.get("queue"):
            self._queues.know(queue)
        if handler.errors is not None:
            handler.errors.check_retries(handler.defaults.get("max_retries", 0))
        self._own[handler.key] = handler = self._adopt(handler)
        self._wrapped[handler.key] = self._wrap(handler)

    def _adopt(self, handler: Handler) -> Handler:
        adopted = handler.with_breakers(self._breakers).with_providers(self.providers)
        return adopted if self._retry is None else adopted.with_default_retry(self._retry)

    def use(self, middleware: Middleware) -> None:
        """Wrap every handler: the registered ones, and those that are registered later."""
        check_callable(middleware, "a middleware")
        self._middleware.append(middleware)
        self._wrap_all()

    def observe(self, observer: Any) -> None:
        """Enter an observer (`tenure.execution.observers`) around the attempts of every handler, present and future."""
        self._observers.append(observer)
        self._wrap_all()

    def _wrap_all(self) -> None:
        self._wrapped = {key: self._wrap(handler) for key, handler in {**self._builtins, **self._own}.items()}

    def _wrap(self, handler: Handler) -> Handler:
        return handler.with_middleware(self._middleware).with_observers(self._observers)

    def check_provided(self) -> None:
        """Refuse handlers that take what nothing provides."""
        for handler in self._own.values():
            self.providers.check(f"handler {handler.key!r}", handler.provided, is_async=handler.is_async)

    def get(self, key: str) -> Handler:
        try:
            return self._wrapped[key]
        except KeyError:
            if key in self._missing:
                raise UnknownHandler(self._missing[key]) from None
            known, guess = ", ".join(sorted(self._own)) or "none", nearest(key, self._wrapped)
            advice = f"did you mean {guess!r}?" if guess else "register it, or import the module that does"
            raise UnknownHandler(f"no handler is registered under {key!r} (registered: {known}); {advice}") from None

    def resolve(self, key: str, queue: str) -> Handler:
        """The handler with this key, if this queue may run it."""
        allowed = self._allowlists.get(queue)
        if allowed is not None and key not in allowed:
            raise ForbiddenHandler(
                f"queue {queue!r} does not allow handler {key!r}; its allowlist is {sorted(allowed)}"
            )
        return self._wrapped.get(key) or self.get(key)  # `get` explains what is missing

    def keys(self) -> list[str]:
        """The keys of all handlers, built-in ones included."""
        return sorted(self._wrapped)

    def __contains__(self, key: str) -> bool:
        return key in self._wrapped

    def __iter__(self) -> Iterator[Handler]:
        return (self._wrapped[key] for key in self._own)
