"""Pace: what a worker tells others about the flow of jobs: how many it ends a second, and how many there were before.

It costs jobs nothing: rates come from what the bookkeeper counts, and one worker of the fleet counts once a minute.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable

from tenure.backends.asking import Counted
from tenure.backends.upkeep import Roster
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError
from tenure.metrics.signals import LIVE

logger = logging.getLogger(__name__)

WINDOW = 60.0


class Pace:
    """Asked every few seconds by whoever describes the worker."""

    def __init__(self, backend: object, roster: Roster, clock: Clock, ended: Callable[[], Counter[str]]) -> None:
        """`ended` tells how many jobs of each queue the worker has ended so far."""
        self._backend = backend
        self._roster = roster
        self._clock = clock
        self._ended = ended
        self._marks: deque[tuple[float, Counter[str]]] = deque([(time.monotonic(), Counter())])
        self._looks: deque[tuple[int, dict[str, int]]] = deque(maxlen=2)
        self._look_at = 0

    def rates(self) -> dict[str, float]:
        """Jobs ended a second, by queue, over about the last minute."""
        now, ended = time.monotonic(), self._ended()
        while len(self._marks) > 1 and now - self._marks[1][0] >= WINDOW:
            self._marks.popleft()
        since, before = self._marks[0]
        self._marks.append((now, ended))
        return {queue: (count - before[queue]) / max(now - since, 1.0) for queue, count in ended.items()}

    def live(self) -> tuple[int, dict[str, int]]:
        """When this worker last but one counted the jobs that had not ended, and how many; (0, {}) if it did not."""
        now = self._clock.now()
        if now >= self._look_at and isinstance(self._backend, Counted):
            self._look_at = now + round(WINDOW * MICROSECOND)
            try:
                if not self._others_look(now):
                    counts = self._backend.counts(ended=False)
                    live = {queue: sum(states[state] for state in LIVE) for queue, states in counts.items()}
                    self._looks.append((now, live))
            except BackendError as error:  # a worker that cannot count must still tell that it lives
                logger.warning("jobs could not be counted: %s", error)
        return self._looks[0] if self._looks else (0, {})

    def _others_look(self, now: int) -> bool:
        """Whether another worker counts, so that this one need not; once it has begun it goes on."""
        if self._looks:
            return False
        recent = now - round(3 * WINDOW * MICROSECOND)
        return any(worker.live_at > recent for worker in self._roster.workers())
