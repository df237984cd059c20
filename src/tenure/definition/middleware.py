"""Middleware: plain functions around a handler's call, the first one outermost."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tenure.definition.context import Context

Middleware = Callable[[Context, Callable[[], Any]], Any]


def wrap(call: Callable[..., Any], middleware: Sequence[Middleware], *, is_async: bool) -> Callable[..., Any]:
    """The call inside every middleware of its kind: functions around functions, coroutines around coroutines."""
    for each in reversed(middleware):
        if inspect.iscoroutinefunction(each) is is_async:
            call = partial(_around, each, call)
    return call


def _around(middleware: Middleware, call: Callable[..., Any], *arguments: Any) -> Any:
    return middleware(arguments[-2], partial(call, *arguments))  # the context is the last but one
