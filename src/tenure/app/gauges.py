"""Gauges: the state of the queues, for the metrics page, and for a collector that takes gauges."""

import logging
import threading
from collections.abc import Callable

from tenure.app.results import read_signals
from tenure.backends.contract import Parts
from tenure.clock import Clock
from tenure.errors import BackendError
from tenure.metrics.counters import Gauge
from tenure.metrics.queue_signals import backend_up_gauge, queue_gauges

logger = logging.getLogger(__name__)

REPORT_INTERVAL = 10.0


def read_queue_gauges(parts: Callable[[], Parts], clock: Clock) -> tuple[Gauge, ...]:
    """Whether the backend answers, and if it does, the state of its queues."""
    try:
        found_parts = parts()
        found = [] if found_parts.queues is None else read_signals(found_parts, clock)
    except BackendError as error:
        logger.warning("the metrics show no queues, because they cannot be read: %s", error)
        return (backend_up_gauge(False),)
    return (backend_up_gauge(True), *queue_gauges(found))


class GaugeReporter:
    """A role of a worker: passes the gauges to a collector that has the method `gauge(name, value, **labels)`.

    Only those of the queues, which are the same in every worker: a collector keeps one value for a name.
    """

    def __init__(self, gauge: Callable[..., None], parts: Callable[[], Parts], clock: Clock) -> None:
        self._gauge = gauge
        self._parts = parts
        self._clock = clock
        self._stopping = threading.Event()

    def run(self) -> None:
        self.report()
        while not self._stopping.wait(REPORT_INTERVAL):
            self.report()

    def stop(self) -> None:
        self._stopping.set()

    def report(self) -> None:
        for name, labels, value in read_queue_gauges(self._parts, self._clock):
            try:
                self._gauge(name, value, **dict(labels))
            except Exception:
                logger.exception("the collector failed to take the gauge %s", name)
                return
