"""Lane: some queues, how they are chosen, and how long the worker stays on them."""

import random
from collections import Counter
from dataclasses import dataclass, field

from tenure.errors import SettingsError
from tenure.events import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """`burst` ends when nothing is ready or in flight, `most` after that many jobs; neither waits for ever.

    Without weights the queues are served strictly in order; with weights each lease draws its order by them.
    """

    queues: tuple[str, ...] = ("default",)
    weights: dict[str, float] = field(default_factory=dict)
    lease_seconds: float = 15.0
    burst: bool = False
    most: int | None = None

    def __post_init__(self) -> None:
        for queue, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise SettingsError(f"the weight of queue {queue!r} must be a number above 0, got {weight!r}")

    def order(self) -> list[str]:
        """The queues in the order this lease should try them."""
        if not self.weights:
            return list(self.queues)
        # Efraimidis and Spirakis: sorting by u^(1/w) draws without replacement in proportion to the weights.
        return sorted(
            self.queues,
            key=lambda queue: random.random() ** (1 / self.weights.get(queue, 1.0)),  # noqa: S311 - not a secret
            reverse=True,
        )

    def ran(self, tally: Counter[Status]) -> int:
        """How many jobs count towards `most`: all that were settled but those put off at no cost."""
        return tally.total() - tally[Status.POSTPONED]
