"""The heartbeat: registers the worker with the backend every few seconds, also while jobs run, with its throughput.

The throughput costs the jobs nothing: rates come from what the stats recorder counts anyway, and only one worker of
the fleet counts the waiting jobs, once a minute.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from tenure.backends.parts import QueueCounts, WorkerRegistry
from tenure.backends.records import WorkerRecord
from tenure.clock import MICROSECOND, Clock
from tenure.errors import BackendError
from tenure.events import LIVE_STATES
from tenure.worker.roles import OutageLog

logger = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 5.0
HEARTBEAT_TIMEOUT = 30.0  # several heartbeats: one slow write does not make a worker look dead
RATE_WINDOW = 60.0


class Heartbeat:
    """Has its own thread, so that neither jobs nor leasing can delay it."""

    def __init__(
        self,
        workers: WorkerRegistry,
        describe: Callable[[], WorkerRecord],
        outage: OutageLog | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` is called when the worker has left the registry."""
        self._workers = workers
        self._on_end = on_end
        self._outage = outage or OutageLog()
        self._describe = describe
        self._stopping = threading.Event()

    def run(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            self._try(lambda: self._workers.announce(self._describe(), HEARTBEAT_TIMEOUT))
            wait = HEARTBEAT_INTERVAL
        self._try(lambda: self._workers.remove(self._describe().id))
        self._try(self._on_end)

    def stop(self) -> None:
        self._stopping.set()

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BackendError as error:
            self._outage.failed(logger, "registering the worker", error)


class Throughput:
    """How many jobs this worker ends per second, and how many jobs were waiting or running a minute ago."""

    def __init__(
        self,
        queues: QueueCounts | None,
        workers: WorkerRegistry,
        clock: Clock,
        ended: Callable[[], Counter[str]],
        outage: OutageLog | None = None,
    ) -> None:
        """`ended` returns how many jobs of each queue the worker has ended so far."""
        self._queues = queues
        self._outage = outage or OutageLog()
        self._workers = workers
        self._clock = clock
        self._ended = ended
        self._samples: deque[tuple[float, Counter[str]]] = deque([(time.monotonic(), Counter())])
        self._live_counts: deque[tuple[int, dict[str, int]]] = deque(maxlen=2)
        self._count_at = 0

    def rates(self) -> dict[str, float]:
        """Jobs ended per second, by queue, over about the last minute."""
        now, ended = time.monotonic(), self._ended()
        while len(self._samples) > 1 and now - self._samples[1][0] >= RATE_WINDOW:
            self._samples.popleft()
        since, before = self._samples[0]
        self._samples.append((now, ended))
        return {queue: (count - before[queue]) / max(now - since, 1.0) for queue, count in ended.items()}

    def live(self) -> tuple[int, dict[str, int]]:
        """The last count but one of jobs that have not ended, with its time; (0, {}) if this worker did not count."""
        now = self._clock.now()
        if now >= self._count_at and self._queues is not None:
            self._count_at = now + round(RATE_WINDOW * MICROSECOND)
            try:
                if not self._another_worker_counts(now):
                    counts = self._queues.counts(ended=False)
                    live = {queue: sum(states[state] for state in LIVE_STATES) for queue, states in counts.items()}
                    self._live_counts.append((now, live))
            except BackendError as error:  # the heartbeat must go on without the count
                self._outage.failed(logger, "counting jobs", error)
        return self._live_counts[0] if self._live_counts else (0, {})

    def _another_worker_counts(self, now: int) -> bool:
        """Whether this worker need not count; a worker that has begun to count continues."""
        if self._live_counts:
            return False
        recent = now - round(3 * RATE_WINDOW * MICROSECOND)
        return any(worker.live_at > recent for worker in self._workers.alive())
