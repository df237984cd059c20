"""Ledger: records every tick of a schedule once, with its state.

A tick has the id of its job, which is the same in every process; the scheduler that enters it first must enqueue it.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, get_args

from msgspec import Struct

from tenure.backends.messages import Message
from tenure.clock import MICROSECOND

TickState = Literal["intended", "waiting", "enqueued", "running", "succeeded", "failed", "skipped"]
TICK_STATES: tuple[TickState, ...] = get_args(TickState)
OPEN_TICKS: tuple[TickState, ...] = TICK_STATES[:4]
ENDED_TICKS: tuple[TickState, ...] = TICK_STATES[4:]
ALL_SCHEDULES = ""  # pausing the schedule of this name, which no schedule has, pauses all
_NOT_STARTED: tuple[TickState, ...] = ("intended", "waiting")
_BEFORE: dict[TickState, tuple[TickState, ...]] = {
    "intended": (),
    "waiting": _NOT_STARTED,
    "enqueued": _NOT_STARTED,
    "running": (*_NOT_STARTED, "running"),
    "skipped": _NOT_STARTED,
    "failed": OPEN_TICKS,
    "succeeded": (*OPEN_TICKS, "failed"),  # a dead letter may be replayed
}


class TickRecord(Struct, frozen=True, kw_only=True):
    """A recorded tick: `due` is its time with its jitter, `noted_at` when its state last changed.

    It is `intended` until its job is put, then `enqueued`; it is `waiting` while it waits for others, and `running`
    while it runs in a scheduler. Times are UTC microseconds; the ledger sets `entered_at` and `noted_at`.
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
    """A new state of a tick."""

    id: str
    state: TickState
    why: str | None = None


def is_by_hand(tick: int) -> bool:
    """Whether a user had this tick run: it has a fraction of a second, and the ticks of a schedule have none."""
    return tick % MICROSECOND != 0


def may_come_from(state: TickState) -> tuple[TickState, ...]:
    """The states that this one may follow: a late note `enqueued` does not replace `succeeded`."""
    return _BEFORE[state]


class Booking(Protocol):
    """Records a tick and puts its job in one step; for a ledger in the database of the jobs."""

    def book(self, ticks: Sequence[TickRecord], messages: Sequence[Message]) -> set[str]:
        """As `enter`; also put the messages whose ids are new ticks, in the same step."""
        ...

    def promote(self, messages: Sequence[Message]) -> set[str]:
        """Note the ticks of these messages as enqueued, and put the messages of changed ticks, in the same step."""
        ...


class Ledger(Protocol):
    """Where ticks are recorded; the conformance suite says what each verb promises."""

    booking: Booking | None = None  # set where the ledger is in the database of the jobs

    def time(self) -> int:
        """UTC microseconds by the clock that all schedulers use."""
        ...

    def enter(self, ticks: Sequence[TickRecord]) -> set[str]:
        """Record ticks in one step; return the ids of those that are new."""
        ...

    def note(self, notes: Sequence[Note]) -> list[TickRecord]:
        """Change states where the new state may follow the recorded one; return the changed ticks."""
        ...

    def known(self, ids: Sequence[str]) -> dict[str, TickRecord]:
        """The recorded ticks with these ids."""
        ...

    def history(self, schedule: str, *, states: Sequence[TickState] = (), limit: int = 20) -> list[TickRecord]:
        """The newest ticks of a schedule, in these states or in any."""
        ...

    def histories(self, schedules: Sequence[str], *, limit: int = 20) -> dict[str, list[TickRecord]]:
        """The newest ticks of each of these schedules, in any state; a page of schedules shows them.

        Databases override it: they answer one question about fifty schedules faster than fifty questions.
        """
        return {schedule: self.history(schedule, limit=limit) for schedule in schedules}

    def unended(self, states: Sequence[TickState], *, before: int, limit: int) -> list[TickRecord]:
        """The ticks of all schedules that have been in these open states since before a time, the oldest note first."""
        ...

    def last_ticks(self) -> dict[str, int]:
        """The latest tick of each schedule that is not in the future, even if it was deleted since.

        A tick that was run by hand does not count: a scheduler would take the ticks before it for entered.
        While a schedule has ticks in the future, which a user or a wrong clock entered, only ticks that are still
        stored count, also those run by hand.
        """
        ...

    def pause(self, schedule: str) -> None:
        """Skip the ticks of this schedule, or of ALL_SCHEDULES, from now on."""
        ...

    def resume(self, schedule: str) -> None: ...

    def paused(self) -> dict[str, int]:
        """The paused schedules, and since when."""
        ...

    def forget(self, before: int, keep: int, limit: int) -> int:
        """Delete up to `limit` ended ticks: those noted before a time, and all but the newest `keep` of a schedule."""
        ...
