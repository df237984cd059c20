"""WorkerCounters: the listener that counts what workers do, in a collector."""

from collections import Counter
from collections.abc import Iterable

from tenure.events import Event, Leased, LeaseLost, NotBuried, Notified, Reaped, Settled, Settlement, Status
from tenure.metrics.collector import Collector, batch_observer

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
