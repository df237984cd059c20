"""The listener that tells a collector what workers do."""

from collections import Counter
from collections.abc import Iterable

from tenure.events import Event, Leased, LeaseLost, NotBuried, Notified, Reaped, Settled, Settlement, Status
from tenure.metrics.collector import Collector, batches

_LATE = ("timed_out", "timeout")  # an attempt that will be retried, and the last one
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


BY_QUEUE = (
    *("jobs_fetched", "jobs_failed", "jobs_rejected_signature", "jobs_timed_out", _NOT_BURIED),
    *_COUNTERS.values(),
)


class WorkerCounters:
    """Counts a batch at a time, labelled by queue."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._observe_all = batches(collector)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Leased):
            self._collector.increment("jobs_fetched", len(event.ids), queue=event.queue)
        elif isinstance(event, Settled):
            self._settled(event.settlements)
        elif isinstance(event, NotBuried):
            self._collector.increment(_NOT_BURIED, len(event.ids), queue=event.queue)
        elif isinstance(event, LeaseLost):
            self._collector.increment("leases_lost", len(event.ids), verb=event.verb)
        elif isinstance(event, Reaped):
            self._collector.increment("leases_reaped", len(event.ids))
            self._collector.increment("jobs_crashed", len(event.crashed))
        elif isinstance(event, Notified):
            labels = {"notification": event.notification, "outcome": event.outcome}
            self._collector.increment("notifications", event.count, **labels)

    def _settled(self, settlements: tuple[Settlement, ...]) -> None:
        self._collector.observe("settle_batch", len(settlements))
        kinds = Counter([(each.queue, each.status, each.failed, each.reason) for each in settlements])
        for (queue, status, failed, reason), count in kinds.items():
            if status in _COUNTERS:
                self._collector.increment(_COUNTERS[status], count, queue=queue)
            if failed:
                self._collector.increment("jobs_failed", count, queue=queue)
            if reason == "bad_signature":
                self._collector.increment("jobs_rejected_signature", count, queue=queue)
            if failed and reason in _LATE:
                self._collector.increment("jobs_timed_out", count, queue=queue)
        self._ran(settlements)

    def _ran(self, settlements: tuple[Settlement, ...]) -> None:
        """How old jobs were when they first started, and how long attempts took."""
        for queue in {each.queue for each in settlements}:
            some = [each.run for each in settlements if each.run is not None and each.queue == queue]
            self._observe_all("jobs_exec_seconds", [run.seconds for run in some], queue=queue)
            ages = [run.wait for run in some if run.wait is not None]
            self._observe_all("jobs_age_seconds", ages, queue=queue)


def begin(collector: Collector, queues: Iterable[str]) -> None:
    """Have the counters of these queues begin at 0: who measures growth sees none in a series that begins at 1."""
    for queue in queues:
        for name in BY_QUEUE:
            collector.increment(name, 0, queue=queue)
