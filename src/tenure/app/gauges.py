"""Gauges: the state of the queues and outboxes, for the metrics page, and for a collector that takes gauges."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tenure.app.outbox.gauges import outbox_gauges
from tenure.app.results import read_signals
from tenure.errors import BackendError
from tenure.metrics.counters import Gauge, Labels
from tenure.metrics.queue_signals import backend_up_gauge, queue_gauges

if TYPE_CHECKING:
    from tenure.app.tenure import Tenure

logger = logging.getLogger(__name__)

REPORT_INTERVAL = 10.0


def read_gauges(app: "Tenure") -> tuple[Gauge, ...]:
    """Whether the backend answers, and the state of its queues and of the outboxes."""
    return (*_queue_gauges(app), *outbox_gauges(app))


def _queue_gauges(app: "Tenure") -> tuple[Gauge, ...]:
    try:
        parts = app.parts()
        found = [] if parts.queues is None else read_signals(parts, app.clock)
    except BackendError as error:
        logger.warning("the metrics show no queues, because they cannot be read: %s", error)
        return (backend_up_gauge(False),)
    return (backend_up_gauge(True), *queue_gauges(found))


class GaugeReporter:
    """A role of a worker: passes the gauges to a collector that has the method `gauge(name, value, **labels)`.

    Only those of queues and outboxes, which are the same in every worker: a collector keeps one value for a name.
    """

    def __init__(self, gauge: Callable[..., object], app: "Tenure") -> None:
        self._gauge = gauge
        self._app = app
        self._last: set[tuple[str, Labels]] = set()
        self._stopping = threading.Event()

    def run(self) -> None:
        self.report()
        while not self._stopping.wait(REPORT_INTERVAL):
            self.report()

    def stop(self) -> None:
        self._stopping.set()

    def report(self) -> None:
        """Pass all gauges once; an error is logged, because a role that fails would stop the worker."""
        try:
            found = read_gauges(self._app)
            for name, labels, value in (*found, *self._gone(found)):
                self._gauge(name, value, **dict(labels))
        except Exception:
            logger.exception("the gauges could not be passed to the collector")

    def _gone(self, found: Sequence[Gauge]) -> list[Gauge]:
        """Zeros for queues and backends of outboxes that have no jobs any more: collectors keep the last value.

        Gauges that could not be read keep their values.
        """
        names, subjects = {name for name, _, _ in found}, {_subject(labels) for _, labels, _ in found}
        gone = {each for each in self._last if each[0] in names and _subject(each[1]) not in subjects}
        self._last = {each for each in self._last if each[0] not in names} | {
            (name, labels) for name, labels, _ in found
        }
        return [(name, labels, 0.0) for name, labels in gone]


def _subject(labels: Labels) -> Labels:
    """The queue, or the outbox and its backend."""
    return tuple(label for label in labels if label[0] != "state")
