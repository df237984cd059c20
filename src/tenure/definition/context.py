"""Context: what a handler may know about the job it is running."""

import time
from contextvars import ContextVar
from typing import Any

from msgspec import Struct


class Context(Struct, frozen=True, kw_only=True):
    """`attempt` is 1 for the first run; `fence` grows with every lease of the job, for conditional writes."""

    id: str
    handler: str
    payload: Any
    queue: str
    name: str | None = None
    attempt: int = 1
    crashes: int = 0
    fence: int = 1
    max_retries: int = 0
    meta: dict[str, Any] = {}
    deadline: float | None = None

    @property
    def time_left(self) -> float | None:
        """Seconds until the attempt is stopped, or None when nothing limits it."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


_current: ContextVar[Context] = ContextVar("tenure.context")
enter = _current.set
leave = _current.reset


def current_context() -> Context:
    """The context of the job that is running here; LookupError outside a job."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no job is running here: current_context() works inside a handler only") from None
