"""The decorator that `app.job(...)` returns."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from tenure.definition.callables import check_function
from tenure.definition.context import Context
from tenure.definition.handler import HandlerOptions, Registry, from_function
from tenure.definition.job_function import AsyncEnqueue, Enqueue, JobFunction

P = ParamSpec("P")
R = TypeVar("R")


class Decorator:
    """Makes a function a job of an app."""

    def __init__(self, registry: Registry, enqueue: Enqueue, aenqueue: AsyncEnqueue, options: HandlerOptions) -> None:
        self._registry = registry
        self._enqueue = enqueue
        self._aenqueue = aenqueue
        self._options = options

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> JobFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...

    def __call__(self, function: Any, /) -> Any:
        options: HandlerOptions = {**self._options}
        check_function(function, has_key=bool(options.get("name")))
        key = options.pop("name", None) or function.__name__
        handler = from_function(key, function, options)
        self._registry.add(handler)
        return JobFunction(function, handler, self._enqueue, self._aenqueue, self._registry.providers)
