"""The metrics page: a snapshot as Prometheus text, or as OpenMetrics on request; needs `tenure[metrics]`.

Every name on the page begins with `tenure_`; names of the app's own counters begin with `tenure_app_`.
"""

import re
from collections.abc import Iterator
from typing import Any

from tenure.errors import SettingsError
from tenure.metrics.counters import Buckets, Snapshot

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_]")  # colons are for the names of recording rules
_PREFIX = "tenure_"
_APP_PREFIX = "tenure_app_"
_WITH_UNIT = {"settle_batch": "settle_batch_jobs", "fetch_batch": "fetch_batch_jobs"}
HELP = {
    "jobs_fetched": "Leases taken",
    "jobs_succeeded": "Jobs that succeeded",
    "jobs_requeued": "Attempts that failed and will be retried",
    "jobs_failed": "Attempts that failed, retried or not",
    "jobs_failed_permanently": "Jobs that were dead-lettered, except rejected messages",
    "jobs_rejected": "Messages that were dead-lettered because they may not run",
    "jobs_rejected_signature": "Messages with a bad signature",
    "jobs_skipped_idempotent": "Jobs that did not run because their idempotency key was done",
    "jobs_cancelled": "Jobs that were cancelled while they ran",
    "jobs_expired": "Jobs that were too late to run",
    "jobs_timed_out": "Attempts that ran past their timeout",
    "jobs_dlq_failed": "Jobs that could not be moved to the dead letters at once",
    "jobs_crashed": "Crashes that were charged to jobs: their process died, or their worker vanished",
    "jobs_age_seconds": "How long jobs waited for their first attempt",
    "jobs_exec_seconds": "How long attempts ran",
    "notifications": "Notices of notifications, by what became of them",
    "leases_lost": "Settlements and renewals that were refused",
    "leases_renewed": "Renewals of leases",
    "leases_reaped": "Leases of workers that vanished",
    "settle_batch": "Jobs settled at once",
    "fetch_batch": "Jobs fetched at once",
    "queue_enqueue_total": "Messages put",
    "queue_fetch_total": "Leases that the backend granted",
    "queue_fetch_empty_total": "Calls for leases that brought none",
    "queue_ack_total": "Jobs that were acknowledged",
    "queue_nack_total": "Jobs that were given back to the backend",
    "queue_abandon_total": "Jobs that the backend moved to the dead letters",
    "queue_park_total": "Jobs that the backend parked",
    "queue_reap_total": "Expired leases that the backend returned",
    "queue_errors_total": "Calls of the backend that failed",
    "queue_enqueue_duration_seconds": "How long the backend took for a put",
    "queue_fetch_duration_seconds": "How long the backend took for leases, waiting for work included",
    "queue_settle_duration_seconds": "How long the backend took to settle a batch",
    "tenure_queue_jobs": "Jobs that have not ended, or are dead, by state",
    "tenure_queue_oldest_age_seconds": "How long the oldest job that could start has waited",
    "tenure_queue_arrival_jobs_per_second": "Jobs that arrive, per second",
    "tenure_queue_service_jobs_per_second": "Jobs that end, per second",
    "tenure_queue_drain_seconds": "How long the ready jobs take at the present rate",
    "tenure_queue_workers": "Live workers that lease from the queue",
    "tenure_worker_processes": "Workers behind this page",
    "tenure_worker_slots": "Jobs that the workers behind this page can run at a time",
    "tenure_worker_running_jobs": "Jobs that run now",
    "tenure_worker_leases": "Leases that the workers hold, of running jobs and of others",
    "tenure_worker_memory_bytes": "Resident memory of the workers and of the processes that run their jobs",
    "tenure_worker_last_beat_timestamp_seconds": "When the slowest loop of the workers last came round",
    "tenure_build_info": "The version of Tenure; the value is always 1",
    "tenure_outbox_jobs": "Jobs that wait in an outbox, by the backend that they are for",
    "tenure_outbox_oldest_age_seconds": "How long the oldest job has waited in an outbox",
    "tenure_outbox_relayed_jobs": "Jobs that the relay moved from an outbox to their backend",
    "tenure_outbox_dropped_jobs": "Jobs of an outbox that were dropped because their unique text was taken",
    "tenure_outbox_refused_jobs": "Tries at which a backend refused a job of an outbox",
    "tenure_backend_up": "Whether the backend answered the query for its queues",
}


def render(snapshot: Snapshot, accept: str = "") -> tuple[bytes, str]:
    """The page and its content type; `accept` is the Accept header of the request."""
    encode, kind = _exposition().choose_encoder(accept)
    return encode(_Families(snapshot)), kind


def check_installed() -> None:
    _exposition()


def page_name(name: str) -> str:
    """The name of a family on the page, for the name of a counter, a histogram or a gauge; without `_total`."""
    plain = _NOT_ALLOWED.sub("_", name)
    if name not in HELP:
        return f"{_APP_PREFIX}{plain}"
    return plain if plain.startswith(_PREFIX) else f"{_PREFIX}{_WITH_UNIT.get(plain, plain)}"


def _exposition() -> Any:
    try:
        from prometheus_client import exposition
    except ImportError as error:
        raise SettingsError(
            "a metrics page needs the package prometheus-client: pip install 'tenure[metrics]'"
        ) from error
    return exposition


class _Families:
    """A registry as the encoders of prometheus_client expect it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Any]:
        from prometheus_client.metrics_core import Metric

        families: dict[str, Any] = {}

        def family(name: str, kind: str) -> Any:
            plain = page_name(name)
            plain = plain.removesuffix("_total") if kind == "counter" else plain
            if plain in families and families[plain].type != kind:  # a metric of the app has the same name
                plain = f"{plain}_{kind}"
            if plain not in families:
                families[plain] = Metric(plain, HELP.get(name, f"{name}, counted by the app"), kind)
            return families[plain]

        for name, labels, value in self._snapshot.counters:
            found = family(name, "counter")
            found.add_sample(f"{found.name}_total", _allowed(labels), value)
        for name, labels, value in (*self._snapshot.gauges, *self._snapshot.worker_gauges):
            found = family(name, "gauge")
            found.add_sample(found.name, _allowed(labels), value)
        for name, labels, buckets in self._snapshot.histograms:
            _add_histogram(family(name, "histogram"), _allowed(labels), buckets)
        for found in families.values():
            found.samples = _without_duplicates(found.samples)
        yield from families.values()


def _without_duplicates(samples: list[Any]) -> list[Any]:
    """Add up samples of the same series: an app may count `a.b` and `a_b`, which have the same name on the page."""
    series: dict[Any, Any] = {}
    for each in samples:
        key = (each.name, tuple(each.labels.items()))
        series[key] = each._replace(value=series[key].value + each.value) if key in series else each
    return list(series.values())


def _allowed(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {_NOT_ALLOWED.sub("_", name): value for name, value in labels}


def _add_histogram(found: Any, labels: dict[str, str], buckets: Buckets) -> None:
    """Add the buckets; a Prometheus bucket includes all smaller ones."""
    so_far = 0
    for bound, count in zip((*map(str, buckets.bounds), "+Inf"), buckets.counts, strict=True):
        so_far += count
        found.add_sample(f"{found.name}_bucket", {**labels, "le": bound}, so_far)
    found.add_sample(f"{found.name}_count", labels, so_far)
    found.add_sample(f"{found.name}_sum", labels, buckets.total)
