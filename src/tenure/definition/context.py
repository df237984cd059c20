"""Context: what a handler may know about the job it is running."""

import time
from contextvars import ContextVar
from math import inf
from typing import Any

from msgspec import Struct, field

from tenure.definition.link import Link, LocalLink
from tenure.definition.passage import Breakers, Passage, always_closed
from tenure.definition.trace import Trace
from tenure.errors import Cancelled


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
    trace: Trace | None = None
    link: Link = field(default_factory=LocalLink)
    breakers: Breakers = always_closed

    @property
    def time_left(self) -> float | None:
        """Seconds until the attempt is stopped, or None when nothing limits it."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants this job cancelled; then it is interrupted too."""
        return self.link.cancelled

    def raise_if_cancelled(self) -> None:
        """Stop here if somebody wants this job cancelled."""
        if self.link.cancelled:
            raise Cancelled

    def progress(self, done: float, total: float | None = None) -> None:
        """Tell how far this attempt is; cheap enough for a tight loop.

        More done than in all counts as all; numbers below 0, infinite or none at all are a ValueError.
        """
        if not 0 <= done < inf:
            raise ValueError(f"progress counts from 0 up; done is {done!r}")
        if total is not None:
            if not 0 <= total < inf:
                raise ValueError(f"progress counts from 0 up; total is {total!r}")
            done = min(done, total)
        self.link.tell(done, total)

    def breaker(self, name: str) -> Passage:
        """Go around calls of what may be down: `with ctx.breaker("stripe"):`, or `async with`.

        Their failures open the breaker of this name. While it is open this raises CircuitOpen, and a handler that
        lets it through has its job parked until the breaker lets it try, at no cost.
        """
        return self.breakers(name, self)


_current: ContextVar[Context] = ContextVar("tenure.context")
enter = _current.set
leave = _current.reset


def current_context() -> Context:
    """The context of the job that is running here; LookupError outside a job."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no job is running here: current_context() works inside a handler only") from None
