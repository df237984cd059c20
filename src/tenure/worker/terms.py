"""Terms: what holds for a worker as a whole, whatever its lanes."""

from collections import Counter
from dataclasses import dataclass

from tenure.events import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`burst` ends when nothing is ready or in flight, `most` after that many jobs; neither waits for ever."""

    queues: tuple[str, ...]
    lease_seconds: float = 15.0
    burst: bool = False
    most: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the worker ends by itself."""
        return self.burst or self.most is not None


def ran(tally: Counter[Status]) -> int:
    """How many jobs count towards `most`: all that were settled but those put off at no cost."""
    return tally.total() - tally[Status.POSTPONED]
