"""Rules for stopping: which attempts the parent must stop, and what the end of a child means for each job in it."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tenure.execution.attempt import Attempt
from tenure.execution.outcome import OutcomeKind

KILL_GRACE = 1.0  # seconds after the soft deadline; a child that still runs the job then is killed
NO_ORDERS_AFTER = 0.25  # seconds after the soft deadline; from then on a child gets no more orders until it is killed
FROZEN_AFTER = 0.5  # seconds without a heartbeat: a call into C holds the interpreter lock
_REMEMBER_SECONDS = 10.0  # an attempt may still be on its way from the inbox to a child


class StopRequests:
    """The attempts whose lease was lost or that are to be cancelled; each request is remembered for 10 s."""

    def __init__(self) -> None:
        self._lost = _RecentTickets()
        self._cancelled = _RecentTickets()

    def lose(self, tickets: Sequence[object]) -> None:
        self._lost.add(tickets)

    def cancel(self, tickets: Sequence[object]) -> None:
        self._cancelled.add(tickets)

    def forget_old(self, now: float) -> None:
        self._lost.forget_old(now)
        self._cancelled.forget_old(now)

    def is_lost(self, attempt: Attempt) -> bool:
        return attempt.ticket in self._lost

    def is_cancelled(self, attempt: Attempt) -> bool:
        return attempt.ticket in self._cancelled

    def is_unwanted(self, attempt: Attempt) -> bool:
        return self.is_lost(attempt) or self.is_cancelled(attempt)

    def cancel_age(self, attempt: Attempt, now: float) -> float | None:
        """Seconds since the first request to cancel it; None without one."""
        return self._cancelled.age(attempt.ticket, now)


class _RecentTickets:
    """One thread adds, another reads and forgets; tickets are compared by identity."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[object, float]] = {}

    def add(self, tickets: Sequence[object]) -> None:
        """The time of a ticket that is known already does not change."""
        now = time.monotonic()
        for ticket in tickets:
            self._since.setdefault(id(ticket), (ticket, now))

    def __contains__(self, ticket: object) -> bool:
        return id(ticket) in self._since

    def age(self, ticket: object, now: float) -> float | None:
        found = self._since.get(id(ticket))
        return None if found is None else now - found[1]

    def forget_old(self, now: float) -> None:
        for key in [key for key, (_, since) in list(self._since.items()) if now - since > _REMEMBER_SECONDS]:
            del self._since[key]


def stop_reason(
    attempt: Attempt, age: float, *, cancel_age: float | None, lost: bool, stopping: bool
) -> OutcomeKind | None:
    """Why an attempt that has run for `age` seconds must be stopped now; None if it may go on.

    `cancel_age` is how long ago a cancel was requested.
    """
    if lost:
        return "lost"
    if stopping:
        return "interrupted"
    if cancel_age is not None and cancel_age > KILL_GRACE:
        return "cancelled"
    return "timed_out" if attempt.timeout and age > attempt.timeout + KILL_GRACE else None


def will_be_killed(attempt: Attempt, age: float, *, cancel_age: float | None) -> bool:
    """Whether an attempt has ignored its soft deadline or its cancel request, and is killed unless it ends soon."""
    if cancel_age is not None and cancel_age > NO_ORDERS_AFTER:
        return True
    return bool(attempt.timeout) and age > (attempt.timeout or 0.0) + NO_ORDERS_AFTER


class Blame(NamedTuple):
    """What the parent knows about what blocked a child.

    `ticket` is the job that blocked its event loop, or 0. `frozen`: a call into C held its interpreter.
    """

    ticket: int
    frozen: bool


def outcomes_of_exit(ran: Collection[int], stops: Mapping[int, OutcomeKind], blame: Blame) -> dict[int, OutcomeKind]:
    """The outcome of each job that ran in a child that has ended; without stop reasons, the child died by itself.

    Jobs that share an interpreter can make each other late. Then only the job that is known to have caused it is
    charged. If the cause is unknown, none is charged; a job to which that happens several times runs alone next time.
    """
    if not stops:
        return dict.fromkeys(ran, "crashed" if len(ran) == 1 else "vanished")
    found: dict[int, OutcomeKind] = {ticket: stops.get(ticket, "neighbour") for ticket in ran}
    if len(ran) == 1 or "timed_out" not in found.values():
        return found
    if blame.frozen:
        return {ticket: "vanished" if kind in ("timed_out", "neighbour") else kind for ticket, kind in found.items()}
    if blame.ticket in found:
        for ticket, kind in found.items():
            if ticket != blame.ticket and kind == "timed_out":
                found[ticket] = "neighbour"
        if found[blame.ticket] == "neighbour":
            found[blame.ticket] = "vanished"
    return found
