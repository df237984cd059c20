"""Values that the app provides to handlers, such as a database session: opened for each job, and closed after it.

A function declares them by their default: `def report(month: int, session: Session = PROVIDED)`. They are no part of
the payload. `Providers` has the factories of the app, by the type that a parameter declares.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Annotated, Any, NoReturn, get_args, get_origin, get_type_hints

from msgspec import Struct

from tenure.definition.callables import is_async, name_of
from tenure.definition.context import Context
from tenure.errors import InvalidHandler


class FromApp:
    """The default of an argument that the app provides."""

    def __repr__(self) -> str:
        return "PROVIDED"


PROVIDED: Any = FromApp()


def provided_arguments(
    what: str, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """The parameters that the app does not provide, and the types of the others by name."""
    kept: list[inspect.Parameter] = []
    types: dict[str, Any] = {}
    for parameter in parameters:
        if not isinstance(parameter.default, FromApp):
            if types and parameter.kind is not parameter.KEYWORD_ONLY:
                raise InvalidHandler(
                    f"{what} takes {parameter.name!r} behind {next(iter(types))!r}, which the app provides; write the "
                    "provided parameters last, so that the others have the same place in every call"
                )
            kept.append(parameter)
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY or parameter.name not in hints:
            raise InvalidHandler(
                f"{what} takes {parameter.name!r} from the app: it needs a type, and may not be positional-only; "
                f"write {parameter.name}: SomeType = PROVIDED"
            )
        types[parameter.name] = _plain(hints[parameter.name])
    return kept, types


def _plain(declared: Any) -> Any:
    return get_args(declared)[0] if get_origin(declared) is Annotated else declared


def type_name(declared: Any) -> str:
    return getattr(declared, "__qualname__", str(declared))


def refuse_async(what: str, declared: Any) -> NoReturn:
    raise InvalidHandler(
        f"{what} is a plain function, and the factory of {type_name(declared)} is async; write the function with "
        "async def, or provide the value by a plain function"
    )


class _Factory(Struct, frozen=True):
    """How to make a value: `make` takes the context if `wants_context`, and the provided values by name."""

    make: Callable[..., Any]
    wants_context: bool
    provided: dict[str, Any]
    needs_loop: bool  # it is async, so only async handlers can use it


class Providers:
    """The factories of an app."""

    def __init__(self) -> None:
        self._factories: dict[Any, _Factory] = {}

    def add(self, declared: Any, factory: Callable[..., Any]) -> None:
        """Another factory of the same type replaces the first."""
        if not callable(factory):
            raise InvalidHandler(
                f"app.provide({type_name(declared)}, ...) takes a function that makes the value, got {factory!r:.80}; "
                "write lambda: value to provide one that exists"
            )
        self._factories[_plain(declared)] = _factory(declared, factory)

    def check(self, what: str, wanted: Mapping[str, Any], *, is_async: bool) -> None:
        """Refuse a function whose arguments can not be provided."""
        for declared, factory in self._plan(what, wanted):
            if factory.needs_loop and not is_async:
                refuse_async(what, declared)

    def call(
        self, function: Callable[..., Any], wanted: Mapping[str, Any], context: Context, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function with the values that it wants, which are closed afterwards, in the opposite order."""
        made: dict[Any, Any] = {}
        with ExitStack() as stack:
            for declared, factory in self._plan(name_of(function), wanted):
                value = factory.make(*_arguments(factory, context), **_values(factory.provided, made))
                if isinstance(value, AbstractContextManager):
                    value = _enter(stack, value)
                elif isinstance(value, (Awaitable, AbstractAsyncContextManager)):
                    refuse_async(name_of(function), declared)
                made[declared] = value
            return function(*args, **kwargs, **_values(wanted, made))

    async def acall(
        self, function: Callable[..., Any], wanted: Mapping[str, Any], context: Context, *args: Any, **kwargs: Any
    ) -> Any:
        """As `call`, for an async function; its factories may be async too."""
        made: dict[Any, Any] = {}
        async with AsyncExitStack() as stack:
            for declared, factory in self._plan(name_of(function), wanted):
                value = factory.make(*_arguments(factory, context), **_values(factory.provided, made))
                if isinstance(value, AbstractAsyncContextManager):
                    value = await _aenter(stack, value)
                elif isinstance(value, AbstractContextManager):
                    value = _enter(stack, value)
                elif factory.needs_loop and isinstance(value, Awaitable):
                    value = await value
                made[declared] = value
            return await function(*args, **kwargs, **_values(wanted, made))

    def _plan(self, what: str, wanted: Mapping[str, Any]) -> list[tuple[Any, _Factory]]:
        """The types to make, each after those that its factory takes."""
        done: dict[Any, _Factory] = {}
        for name, declared in wanted.items():
            self._add_needed(f"{what} takes {name}: {type_name(declared)}", declared, done, ())
        return list(done.items())

    def _add_needed(self, why: str, declared: Any, done: dict[Any, _Factory], path: tuple[Any, ...]) -> None:
        if declared in done:
            return
        if declared in path:
            circle = " → ".join(map(type_name, (*path, declared)))
            raise InvalidHandler(f"the factories of provided values need each other: {circle}")
        factory = self._factories.get(declared)
        if factory is None:
            raise InvalidHandler(f"{why}, and nothing provides it; call app.provide({type_name(declared)}, factory)")
        for name, needed in factory.provided.items():
            taken = f"the factory of {type_name(declared)} takes {name}: {type_name(needed)}"
            self._add_needed(taken, needed, done, (*path, declared))
        done[declared] = factory


def _factory(declared: Any, factory: Callable[..., Any]) -> _Factory:
    what = f"the factory of {type_name(declared)}"
    parameters, hints = list(_parameters(factory)), _hints(factory)
    wants_context = bool(parameters) and hints.get(parameters[0].name) is Context
    rest, provided = provided_arguments(what, parameters[wants_context:], hints)
    if required := [each.name for each in rest if each.default is each.empty]:
        raise InvalidHandler(
            f"{what} takes {', '.join(required)}; a factory takes only a Context, as its first parameter, and "
            "parameters with the default PROVIDED"
        )
    make, needs_loop = factory, is_async(factory)
    if inspect.isgeneratorfunction(factory):
        make = contextmanager(factory)
    elif inspect.isasyncgenfunction(factory):
        make, needs_loop = asynccontextmanager(factory), True
    return _Factory(make, wants_context, provided, needs_loop or _is_async_manager(factory))


def _parameters(factory: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The parameters that have a name; a class or a built-in function may not tell any."""
    try:
        found = inspect.signature(factory).parameters.values()
    except ValueError:
        return
    yield from (each for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotations, resolved if they can be: only those of a Context and of provided parameters matter."""
    described = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return get_type_hints(described)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return dict(getattr(described, "__annotations__", {}))


def _is_async_manager(factory: Any) -> bool:
    """Whether it is made by `asynccontextmanager`, or is a class that needs `async with`."""
    inner = getattr(factory, "__wrapped__", factory)
    if inspect.isasyncgenfunction(inner):
        return True
    return inspect.isclass(factory) and hasattr(factory, "__aenter__") and not hasattr(factory, "__enter__")


def _enter(stack: ExitStack | AsyncExitStack, manager: AbstractContextManager[Any]) -> Any:
    """Enter it; at the end it cannot suppress an error, because the attempt would count as a success."""
    value = manager.__enter__()

    def leave(kind: Any, error: Any, trace: Any) -> None:
        manager.__exit__(kind, error, trace)

    stack.push(leave)
    return value


async def _aenter(stack: AsyncExitStack, manager: AbstractAsyncContextManager[Any]) -> Any:
    """As `_enter`."""
    value = await manager.__aenter__()

    async def leave(kind: Any, error: Any, trace: Any) -> None:
        await manager.__aexit__(kind, error, trace)

    stack.push_async_exit(leave)
    return value


def _arguments(factory: _Factory, context: Context) -> tuple[Context, ...]:
    return (context,) if factory.wants_context else ()


def _values(wanted: Mapping[str, Any], made: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: made[declared] for name, declared in wanted.items()}
