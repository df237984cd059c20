"""WorkerCounters: the listener that counts what workers do, in a collector.

Snapshot holds the metrics of a process at one moment; processes send snapshots to each other and add them up.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from tenure.events import (
    Event,
    Leased,
    LeaseLost,
    NotBuried,
    Notified,
    OutboxRelayed,
    Reaped,
    Settled,
    Settlement,
    Status,
)
from tenure.metrics.collector import Collector, MemoryCollector, Series, batch_observer

_TIMEOUT_REASONS = ("timed_out", "timeout")  # of an attempt that will be retried, and of the last attempt
_COUNTERS = {
    Status.ACKED: "jobs_succeeded",
    Status.REQUEUED: "jobs_requeued",
    Status.DEAD_LETTERED: "jobs_failed_permanently",
    Status.SKIPPED_IDEMPOTENT: "jobs_skipped_idempotent",
    Status.REJECTED: "jobs_rejected",
    Status.CANCELLED: "jobs_cancelled",
    Status.EXPIRED: "jobs_expired",
}
_DEAD_LETTER_FAILED = "jobs_dlq_failed"
BY_QUEUE = (
    *("jobs_fetched", "jobs_failed", "jobs_rejected_signature", "jobs_timed_out", _DEAD_LETTER_FAILED),
    *_COUNTERS.values(),
)


class WorkerCounters:
    """Counts once per batch, labelled by queue."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._observe_all = batch_observer(collector)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Leased):
            self._collector.increment("jobs_fetched", len(event.ids), queue=event.queue)
        elif isinstance(event, Settled):
            self._count_settled(event.settlements)
        elif isinstance(event, NotBuried):
            self._collector.increment(_DEAD_LETTER_FAILED, len(event.ids), queue=event.queue)
        elif isinstance(event, LeaseLost):
            self._collector.increment("leases_lost", len(event.ids), verb=event.verb)
        elif isinstance(event, Reaped):
            self._collector.increment("leases_reaped", len(event.ids))
            self._collector.increment("jobs_crashed", len(event.crashed))
        elif isinstance(event, Notified):
            labels = {"notification": event.notification, "outcome": event.outcome}
            self._collector.increment("notifications", event.count, **labels)
        elif isinstance(event, OutboxRelayed):
            labels = {"outbox": event.outbox, "backend": event.backend}
            for name in ("relayed", "dropped", "refused"):
                self._collector.increment(f"tenure_outbox_{name}_jobs", getattr(event, name), **labels)

    def _count_settled(self, settlements: tuple[Settlement, ...]) -> None:
        self._collector.observe("settle_batch", len(settlements))
        kinds = Counter([(each.queue, each.status, each.failed, each.reason) for each in settlements])
        for (queue, status, failed, reason), count in kinds.items():
            if status in _COUNTERS:
                self._collector.increment(_COUNTERS[status], count, queue=queue)
            if failed:
                self._collector.increment("jobs_failed", count, queue=queue)
            if reason == "bad_signature":
                self._collector.increment("jobs_rejected_signature", count, queue=queue)
            if failed and reason in _TIMEOUT_REASONS:
                self._collector.increment("jobs_timed_out", count, queue=queue)
        self._observe_runs(settlements)

    def _observe_runs(self, settlements: tuple[Settlement, ...]) -> None:
        """Record how long jobs waited for their first attempt, and how long attempts took."""
        for queue in {each.queue for each in settlements}:
            runs = [each.run for each in settlements if each.run is not None and each.queue == queue]
            self._observe_all("jobs_exec_seconds", [run.seconds for run in runs], queue=queue)
            ages = [run.wait for run in runs if run.wait is not None]
            self._observe_all("jobs_age_seconds", ages, queue=queue)


def start_at_zero(collector: Collector, queues: Iterable[str]) -> None:
    """Create the counters of these queues with 0: Prometheus sees no growth in a series that begins at 1."""
    for queue in queues:
        for name in BY_QUEUE:
            collector.increment(name, 0, queue=queue)


Labels = tuple[tuple[str, str], ...]
T = TypeVar("T")


class Buckets(Struct, array_like=True, frozen=True):
    """A histogram: the bounds of its buckets, the count in each and above the last bound, and the sum of all values."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    def __add__(self, other: "Buckets") -> "Buckets":
        counts = tuple(mine + yours for mine, yours in zip(self.counts, other.counts, strict=True))
        return Buckets(self.bounds, counts, self.total + other.total)


class Snapshot(Struct, frozen=True):
    """Counters and histograms grow until their process ends; gauges are present values."""

    counters: tuple[tuple[str, Labels, float], ...] = ()
    histograms: tuple[tuple[str, Labels, Buckets], ...] = ()
    gauges: tuple[tuple[str, Labels, float], ...] = ()


def take_snapshot(collector: MemoryCollector) -> Snapshot:
    """What a collector holds now."""
    counters, histograms = collector.series()
    buckets = {series: Buckets(each.bounds, tuple(each.buckets), each.total) for series, each in histograms.items()}
    return Snapshot(_rows(counters), _rows(buckets))


def merge_snapshots(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The sums of counters and histograms; of each gauge the last value, because all processes report the same one."""
    counters: dict[Series, float] = {}
    histograms: dict[Series, Buckets] = {}
    gauges: dict[Series, float] = {}
    for snapshot in snapshots:
        for name, labels, value in snapshot.counters:
            series = Series(name, labels)
            counters[series] = counters.get(series, 0) + value
        for name, labels, buckets in snapshot.histograms:
            series = Series(name, labels)
            histograms[series] = histograms[series] + buckets if series in histograms else buckets
        gauges.update((Series(name, labels), value) for name, labels, value in snapshot.gauges)
    return Snapshot(_rows(counters), _rows(histograms), _rows(gauges))


def _rows(values: dict[Series, T]) -> tuple[tuple[str, Labels, T], ...]:
    return tuple((series.name, series.labels, value) for series, value in values.items())
