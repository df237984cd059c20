"""Overlap: whether a tick may start while earlier ones of its schedule have not ended."""

from enum import StrEnum
from typing import Literal, get_args

from tenure.errors import InvalidSchedule

Overlap = Literal["allow", "skip", "queue_one"]


class Admission(StrEnum):
    """What a tick may do: run, wait until the one before has ended, or be left out."""

    START = "start"
    WAIT = "wait"
    SKIP = "skip"


def check_overlap(policy: Overlap) -> Overlap:
    """The policy itself, if there is one of this name."""
    if policy not in get_args(Overlap):
        raise InvalidSchedule(f"overlap must be one of {', '.join(get_args(Overlap))}, got {policy!r}")
    return policy


def admit(policy: Overlap, unfinished: int) -> Admission:
    """`unfinished` counts the earlier ticks that run or wait; `queue_one` lets one run and one wait."""
    if policy == "allow" or not unfinished:
        return Admission.START
    return Admission.WAIT if policy == "queue_one" and unfinished == 1 else Admission.SKIP
