"""What a ledger is: every tick of a schedule is written into it once, with what became of it.

A tick goes by the id of its job, which is the same in every process; whoever enters it first has it to do.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, get_args, runtime_checkable

from msgspec import Struct

from tenure.backends.contract import Message

TickState = Literal["intended", "waiting", "enqueued", "running", "succeeded", "failed", "skipped"]
TICK_STATES: tuple[TickState, ...] = get_args(TickState)
OPEN: tuple[TickState, ...] = TICK_STATES[:4]
ENDED: tuple[TickState, ...] = TICK_STATES[4:]
EVERY = ""  # pausing the schedule of this name, which none can have, pauses all
_NOT_STARTED: tuple[TickState, ...] = ("intended", "waiting")
_BEFORE: dict[TickState, tuple[TickState, ...]] = {
    "intended": (),
    "waiting": _NOT_STARTED,
    "enqueued": _NOT_STARTED,
    "running": (*_NOT_STARTED, "running"),
    "skipped": _NOT_STARTED,
    "failed": OPEN,
    "succeeded": (*OPEN, "failed"),  # a dead letter may be replayed
}


class TickRecord(Struct, frozen=True, kw_only=True):
    """A tick as the ledger has it: `due` is its own time and its jitter, `noted_at` when its state last changed.

    It is `intended` until its job is put, then `enqueued`; one that waits for others is `waiting`, one that runs in a
    scheduler `running`. Times are UTC microseconds; those of a tick that is entered are the ledger's matter.
    """

    id: str
    schedule: str
    tick: int
    due: int
    state: TickState
    why: str | None = None
    entered_at: int = 0
    noted_at: int = 0


class Note(Struct, frozen=True):
    """What became of a tick."""

    id: str
    state: TickState
    why: str | None = None


def may_come_from(state: TickState) -> tuple[TickState, ...]:
    """The states that this one may follow: a late word that a job was enqueued does not undo that it succeeded."""
    return _BEFORE[state]


@runtime_checkable
class Ledger(Protocol):
    """Where ticks are recorded; see the conformance suite for what each verb promises."""

    def time(self) -> int:
        """UTC microseconds by the clock that every scheduler goes by."""
        ...

    def enter(self, ticks: Sequence[TickRecord]) -> set[str]:
        """Record ticks that are not known yet, in one step; returns the ids of those that are new."""
        ...

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        """Change states, each if it may follow what is recorded; returns what has changed, as it is now."""
        ...

    def known(self, ids: Sequence[str]) -> dict[str, TickRecord]:
        """Those of these ticks that are recorded."""
        ...

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        """The newest ticks of a schedule, in these states or in any."""
        ...

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        """The ticks of all schedules that are in these open states since before a time, the oldest note first."""
        ...

    def last_ticks(self) -> dict[str, int]:
        """The latest tick of each schedule that was ever entered, also when that was forgotten since."""
        ...

    def pause(self, schedule: str) -> None:
        """Have the ticks of this schedule, or of EVERY one, skipped from now on."""
        ...

    def resume(self, schedule: str) -> None: ...

    def paused(self) -> dict[str, int]:
        """What is paused, and since when."""
        ...

    def forget(self, before: int, keep: int, limit: int) -> int:
        """Delete up to so many ended ticks: those noted before a time, and all but the newest `keep` of a schedule."""
        ...


@runtime_checkable
class Booking(Ledger, Protocol):
    """Ledgers in the database of the queue."""

    def book(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        """As enter, and put the messages of those that are new, by their ids, in the same step."""
        ...

    def promote(self, messages: Sequence[Message]) -> set[str]:
        """Note the ticks of these messages as enqueued, and put those of them that changed, in the same step."""
        ...


@runtime_checkable
class Ledgered(Protocol):
    """Backends that keep a ledger beside their queues."""

    ledger: Ledger
