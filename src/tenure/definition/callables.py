"""Callables of the user: whether calling one runs its code, and what to do with a result that still has to run.

A call of a generator function, or of a coroutine function, runs none of its code. What can be seen at registration is
refused there. The rest is found by its result: an awaitable is awaited, and everything else that is lazy is an error.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import partial
from itertools import starmap
from typing import Any

from tenure.errors import InvalidHandler

PLAIN_TYPES = frozenset({type(None), str, bool, int, float, bytes, list, tuple, dict})  # never awaitable
_LAZY_TYPES = (Awaitable, Generator, AsyncGenerator, map, filter, starmap)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine, as far as that can be seen; it sees partial objects and `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_code_behind(function))


def refuse_generator(function: Any, what: str) -> None:
    """Refuse a generator function, sync or async. `what` names it in the message."""
    code = _code_behind(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise InvalidHandler(
            f"{what} is a generator function (it has 'yield'), so a call would run none of its code; "
            "use return, or call it from a function that consumes it"
        )


def check_function(function: Any, *, has_key: bool) -> None:
    """Refuse what `@app.job` cannot make a job of, with a message that says what to write."""
    if inspect.iscoroutine(function):
        function.close()
        raise InvalidHandler(f"@app.job was given a coroutine, {function!r:.80}; pass the function, without calling it")
    if isinstance(function, (staticmethod, classmethod)):
        raise InvalidHandler(
            f"@app.job cannot make a job of the {type(function).__name__} {name_of(function)!r}; "
            "move the function out of its class"
        )
    if inspect.isclass(function):
        raise InvalidHandler(
            f"@app.job takes functions, and {name_of(function)!r} is a class; give it a method handle(self, ...) and "
            f'write app.register("key", {function.__name__})'
        )
    if not callable(function):
        raise InvalidHandler(
            f"@app.job takes a function, got {function!r:.80}; options have names: "
            '@app.job(queue="emails", max_retries=3)'
        )
    if not has_key and not _has_plain_name(function):
        raise InvalidHandler(
            f"{name_of(function)} has no name that could be its key; write a function with def, or give it a key: "
            '@app.job(name="key")'
        )


def _has_plain_name(function: Any) -> bool:
    return getattr(function, "__name__", "<lambda>") != "<lambda>"


def check_callable(function: Any, what: str) -> None:
    """Refuse what cannot be called, and generator functions."""
    if not callable(function):
        raise InvalidHandler(f"{what} must be callable, got {function!r:.80}")
    refuse_generator(function, f"{name_of(function)!r}, {what},")


def refuse_lazy(result: Any, what: str) -> None:
    """Refuse a result whose code has not run: an awaitable, a generator, or what `map` and `filter` return."""
    if isinstance(result, _LAZY_TYPES) or _is_generator_context_manager(result):
        if inspect.iscoroutine(result):
            result.close()  # the error below says more than the warning about a coroutine that was never awaited
        raise InvalidHandler(
            f"{what} returned an object of type {type(result).__name__!r}, whose code has not run; "
            "consume it first: await it, loop over it, or pass it to list()"
        )


async def completed(result: Any, what: str) -> Any:
    """The value behind an awaitable; it may return another one."""
    while isinstance(result, Awaitable):
        result = await result
    refuse_lazy(result, what)
    return result


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function)[:80])


def _code_behind(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return getattr(type(function), "__call__", function)  # noqa: B004 - the method itself is inspected


def _is_generator_context_manager(result: Any) -> bool:
    """Whether a function with `@contextmanager` returned it: its code runs only in a `with`."""
    return type(result).__module__ == "contextlib" and isinstance(getattr(result, "gen", None), _LAZY_TYPES)
