"""Sentences: which runs must be stopped, and what the end of a child means for each job in it; pure functions."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Kind

HARD_GRACE = 1.0  # the soft deadline comes first; a child that is still at it this much later is killed
LAST_ORDERS = 0.25  # so long after the soft deadline a child that others share gets no more orders, until it is killed
FROZEN = 0.5  # without a pulse for this long, an interpreter is held by a call into C


class Blame(NamedTuple):
    """What is known about who kept a child from going on: the ticket, if any, or that its interpreter was held."""

    ticket: int
    frozen: bool


def sentence(attempt: Attempt, age: float, *, asked: float | None, lost: bool, stopping: bool) -> Kind | None:
    """Why a run of this age must be stopped now, if it must; `asked` is how long ago somebody cancelled it."""
    if lost:
        return "lost"
    if stopping:
        return "interrupted"
    if asked is not None and asked > HARD_GRACE:
        return "cancelled"
    return "timed_out" if attempt.timeout and age > attempt.timeout + HARD_GRACE else None


def is_doomed(attempt: Attempt, age: float, *, asked: float | None) -> bool:
    """Whether a run has ignored its soft deadline or its cancelling, and will be killed unless it stops soon."""
    if asked is not None and asked > LAST_ORDERS:
        return True
    return bool(attempt.timeout) and age > (attempt.timeout or 0.0) + LAST_ORDERS


def fates(ran: Collection[int], sentences: Mapping[int, Kind], blame: Blame) -> dict[int, Kind]:
    """What the end of a child means for each job that ran in it; without a sentence, it died by itself.

    Where jobs share an interpreter, one can make another late: then only the one that is known to have done it
    is charged, and when nobody knows, all are suspects, to be run alone.
    """
    if not sentences:
        return dict.fromkeys(ran, "crashed" if len(ran) == 1 else "suspect")
    found: dict[int, Kind] = {ticket: sentences.get(ticket, "neighbour") for ticket in ran}
    if len(ran) == 1 or "timed_out" not in found.values():
        return found
    if blame.frozen:
        return {ticket: "suspect" if kind in ("timed_out", "neighbour") else kind for ticket, kind in found.items()}
    if blame.ticket in found:
        for ticket, kind in found.items():
            if ticket != blame.ticket and kind == "timed_out":
                found[ticket] = "neighbour"
        if found[blame.ticket] == "neighbour":
            found[blame.ticket] = "suspect"
    return found
