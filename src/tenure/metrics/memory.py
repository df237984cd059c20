"""A collector in memory, and the listener that feeds it the worker's counters."""

import threading
from collections import Counter, OrderedDict
from typing import Any, Protocol, TypeVar

from tenure.events import Event, Leased, LeaseLost, NotBuried, Reaped, Settled, Status

MOST_SERIES = 5000
_LATE = ("timed_out", "timeout")  # an attempt that will be retried, and the last one
T = TypeVar("T")

_COUNTERS = {
    Status.ACKED: "jobs_succeeded",
    Status.REQUEUED: "jobs_requeued",
    Status.DEAD_LETTERED: "jobs_failed_permanently",
    Status.SKIPPED_IDEMPOTENT: "jobs_skipped_idempotent",
    Status.REJECTED: "jobs_rejected",
    Status.CANCELLED: "jobs_cancelled",
    Status.EXPIRED: "jobs_expired",
}
_NOT_BURIED = "jobs_dlq_failed"


class Collector(Protocol):
    """Where counters and observations go."""

    def increment(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...


class MemoryCollector:
    """Counters, and histograms as count, sum, min and max; the oldest series gives way beyond 5 000."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: OrderedDict[str, float] = OrderedDict()
        self._histograms: OrderedDict[str, tuple[int, float, float, float]] = OrderedDict()

    def increment(self, name: str, value: float = 1, **labels: str) -> None:
        key = _key(name, labels)
        with self._lock:
            self._counters[key] = self._counters.get(key, 0) + value
            _evict(self._counters)

    def observe(self, name: str, value: float, **labels: str) -> None:
        key = _key(name, labels)
        with self._lock:
            count, total, low, high = self._histograms.get(key, (0, 0.0, value, value))
            self._histograms[key] = (count + 1, total + value, min(low, value), max(high, value))
            _evict(self._histograms)

    def reset(self) -> None:
        with self._lock:
            self._counters.clear()
            self._histograms.clear()

    def snapshot(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            histograms = {
                key: {"count": count, "sum": total, "min": low, "max": high}
                for key, (count, total, low, high) in self._histograms.items()
            }
            return {"counters": dict(self._counters), "histograms": histograms}


class WorkerCounters:
    """A listener that counts what workers do, labelled by queue."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def __call__(self, event: Event) -> None:
        if isinstance(event, Leased):
            self._collector.increment("jobs_fetched", len(event.ids), queue=event.queue)
        elif isinstance(event, Settled):
            self._settled(event)
        elif isinstance(event, NotBuried):
            self._collector.increment(_NOT_BURIED, len(event.ids), queue=event.queue)
        elif isinstance(event, LeaseLost):
            self._collector.increment("leases_lost", len(event.ids), verb=event.verb)
        elif isinstance(event, Reaped):
            self._collector.increment("leases_reaped", len(event.ids))
            self._collector.increment("jobs_crashed", len(event.crashed))

    def _settled(self, event: Settled) -> None:
        self._collector.observe("settle_batch", len(event.settlements))
        kinds = Counter([(each.queue, each.status, each.failed, each.reason) for each in event.settlements])
        for (queue, status, failed, reason), count in kinds.items():
            if status in _COUNTERS:
                self._collector.increment(_COUNTERS[status], count, queue=queue)
            if failed:
                self._collector.increment("jobs_failed", count, queue=queue)
            if reason == "bad_signature":
                self._collector.increment("jobs_rejected_signature", count, queue=queue)
            if failed and reason in _LATE:
                self._collector.increment("jobs_timed_out", count, queue=queue)


def _key(name: str, labels: dict[str, str]) -> str:
    return f"{name}|{';'.join(f'{key}={labels[key]}' for key in sorted(labels))}" if labels else name


def _evict(series: OrderedDict[str, T]) -> None:
    if len(series) > MOST_SERIES:
        series.popitem(last=False)
