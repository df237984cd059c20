"""Passage: how a running handler goes through a circuit breaker, whoever keeps the breaker."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tenure.definition.context import Context


class Passage(AbstractContextManager[None, None], AbstractAsyncContextManager[None, None], Protocol):
    """Around calls of what may be down, with `with` or `async with`; raises CircuitOpen instead of trying."""


class Breakers(Protocol):
    """The circuit breakers of an app, as its handlers reach them."""

    def __call__(self, name: str, context: "Context") -> Passage: ...


def always_closed(name: str, context: "Context") -> Passage:  # noqa: ARG001 - one signature for all breakers
    """For contexts that no app has made, as in tests of handlers."""
    return nullcontext()
