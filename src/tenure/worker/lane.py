"""What a worker serves: its lanes, each with its queues and its runner, and the options for all of them."""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from tenure.backends.messages import DEFAULT_SUSPECT_AFTER
from tenure.errors import SettingsError

RunnerKind = Literal["inline", "process", "threads", "event_loop"]
RUNNERS: tuple[RunnerKind, ...] = get_args(RunnerKind)
# One child per core; for threads and event_loop, what jobs that wait can use before memory and scheduling cost more.
_DEFAULT_CONCURRENCY: dict[RunnerKind, int] = {
    "inline": 1,
    "process": os.cpu_count() or 1,
    "threads": 16,
    "event_loop": 100,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Some queues, and how many of their jobs run at once in which runner.

    `concurrency` 0 means the default of the runner.
    Without weights, the queues are served strictly in order. With weights, each lease draws a random order by weight.
    """

    queues: tuple[str, ...]
    weights: dict[str, float] = field(default_factory=dict)
    runner: RunnerKind = "process"
    concurrency: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if not self.queues:
            raise self._error('names no queue; give it a list, such as queues = ["emails"]')
        if self.runner not in RUNNERS:
            raise self._error(f"has the runner {self.runner!r}; known ones: {', '.join(RUNNERS)}")
        if self.concurrency < 0:
            raise self._error(f"has a concurrency of {self.concurrency}; it must be at least 1")
        if self.runner == "inline" and self.concurrency > 1:
            raise self._error("is inline, which runs one job at a time; choose another runner for concurrency")
        for queue, weight in self.weights.items():
            self._check_weight(queue, weight)
        object.__setattr__(self, "queues", tuple(dict.fromkeys(self.queues)))
        object.__setattr__(self, "concurrency", self.concurrency or _DEFAULT_CONCURRENCY[self.runner])

    def order(self) -> list[str]:
        """The queues in the order in which the next lease should try them."""
        if not self.weights:
            return list(self.queues)
        # Efraimidis and Spirakis: sorting by u^(1/w) draws without replacement in proportion to the weights.
        return sorted(
            self.queues,
            key=lambda queue: random.random() ** (1 / self.weights.get(queue, 1.0)),  # noqa: S311 - not a secret
            reverse=True,
        )

    def _check_weight(self, queue: str, weight: float) -> None:
        if queue not in self.queues:
            raise self._error(f"gives a weight to queue {queue!r}, which it does not serve")
        if not 0 < weight < float("inf"):
            raise self._error(f"gives queue {queue!r} the weight {weight!r}, which must be a number above 0")

    def _error(self, problem: str) -> SettingsError:
        return SettingsError(f"{f'lane {self.name!r}' if self.name else 'the lane'} {problem}")


def arrange_lanes(lanes: Sequence[Lane]) -> list[Lane]:
    """Check that the lanes fit into one worker; the inline lane comes first, because it needs the main thread."""
    lane_of: dict[str, Lane] = {}
    for lane in lanes:
        for queue in lane.queues:
            if queue in lane_of:
                names = " and ".join(repr(each.name) for each in (lane_of[queue], lane))
                raise SettingsError(f"queue {queue!r} is in the lanes {names}; a queue is served by one lane")
            lane_of[queue] = lane
    inline = [lane for lane in lanes if lane.runner == "inline"]
    if len(inline) > 1:
        names = ", ".join(repr(lane.name) for lane in inline)
        raise SettingsError(f"the lanes {names} are inline; one can be, because it runs in the worker's main thread")
    return inline + [lane for lane in lanes if lane.runner != "inline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What applies to all lanes of a worker.

    With `burst` the worker ends when no job is ready or running; with `max_jobs` it ends after that many jobs.
    After `suspect_after` workers vanished in a row with a job, it is a suspect. With `only_suspects` the worker runs
    suspects, one at a time, and nothing else.
    """

    queues: tuple[str, ...]
    lease_seconds: float = 15.0
    burst: bool = False
    max_jobs: int | None = None
    suspect_after: int = DEFAULT_SUSPECT_AFTER
    only_suspects: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether the worker ends by itself."""
        return self.burst or self.max_jobs is not None
