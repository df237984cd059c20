"""Workload: how many orders a child may hold, by how long the handlers of its orders took recently.

A child gets orders ahead, so that it need not wait for the parent, but only as many as it will have finished soon.
Nothing is queued behind a slow job: neither behind one whose handler was slow, nor behind one whose handler is new.
"""

from tenure.execution.attempt import Attempt

_QUEUED_SECONDS = 0.01  # of work that a child holds beyond what it runs: covers the time of a report and a new order
_MAX_QUEUED = 128
_UNKNOWN_SECONDS = 1.0  # until the first job of a handler has ended
_LEAST_SECONDS = 1e-6
_SMOOTHING = 0.1

Durations = dict[str, float]  # how long the jobs of each handler take: exponentially weighted means, in seconds


def record_duration(durations: Durations, handler: str, seconds: float) -> None:
    mean = durations.get(handler, seconds)
    durations[handler] = max(mean + _SMOOTHING * (seconds - mean), _LEAST_SECONDS)


class Workload:
    """The orders of one child that it has not reported, for so many slots."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._orders: dict[str, int] = {}  # how many there are for each handler
        self._count = 0
        self._seconds = 0.0

    def add(self, durations: Durations, attempt: Attempt) -> bool:
        """Count one more order; False if none may follow."""
        handler = attempt.envelope.job
        self._orders[handler] = self._orders.get(handler, 0) + 1
        self._count = count = self._count + 1
        self._seconds += durations.get(handler, _UNKNOWN_SECONDS)
        return count < self._slots or count < self._limit()

    def remove(self, attempt: Attempt) -> None:
        handler = attempt.envelope.job
        self._count -= 1
        self._orders[handler] -= 1
        if not self._orders[handler]:
            del self._orders[handler]

    def is_low(self, durations: Durations) -> bool:
        """Whether more than half of the orders that the child may queue are missing."""
        self._seconds = sum(
            number * durations.get(handler, _UNKNOWN_SECONDS) for handler, number in self._orders.items()
        )
        limit = self._limit()
        return (limit - self._count) * 2 > limit - self._slots

    def _limit(self) -> int:
        """So many jobs keep the child busy for long enough, if they take as long as those that it holds."""
        if not self._count:
            return self._slots
        queued = self._slots * _QUEUED_SECONDS * self._count / self._seconds
        return self._slots + (int(queued) if queued < _MAX_QUEUED else _MAX_QUEUED)
