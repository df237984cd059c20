"""Guard: what a job must hold to run, and what each of its endings does to it."""

from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from tenure.guards.states import Holder, State
from tenure.guards.store import Step

Reason = Literal["busy", "rate_limited", "circuit_open", "claimed", "done"]


class Refusal(Struct, frozen=True, gc=False):
    """Not now: `until` is when to try again, unless the key changes before; `first` is the job that has done it all."""

    key: str
    reason: Reason
    until: int = 0
    first: str | None = None


class Ending(NamedTuple):
    """How a run ended: for good or to be tried `again` in so many seconds; `succeeded` is None when nobody can say."""

    over: bool
    succeeded: bool | None = None
    again: float = 0.0


class Guard(Protocol):
    """One key and three pure functions of its state."""

    @property
    def key(self) -> str: ...

    def take(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None:
        """Let a job start; None when there is nothing to remember."""
        ...

    def renew(self, state: State | None, holder: Holder, now: int) -> Step | Refusal | None: ...

    def settle(self, state: State | None, holder: Holder, ending: Ending, now: int) -> Step | None: ...
