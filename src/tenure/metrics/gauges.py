"""Gauges: how queues and the fleet are now, as a metrics page tells it."""

from collections.abc import Iterable, Iterator

from tenure.metrics.signals import LIVE, Signals
from tenure.metrics.snapshot import Labels

Gauge = tuple[str, Labels, float]
_STATES = (*LIVE, "dead")


def gauges(signals: Iterable[Signals]) -> Iterator[Gauge]:
    """What is not known is left out."""
    for each in signals:
        labels = (("queue", each.queue),)
        for state in _STATES:
            yield "tenure_queue_jobs", (*labels, ("state", state)), getattr(each, state)
        known = {
            "tenure_queue_oldest_age_seconds": each.oldest_age,
            "tenure_queue_arrival_rate": each.arrival_rate,
            "tenure_queue_service_rate": each.service_rate,
            "tenure_queue_drain_seconds": each.seconds_to_drain,
        }
        yield from ((name, labels, value) for name, value in known.items() if value is not None)


def backend_is(up: bool) -> Gauge:
    return "tenure_backend_up", (), float(up)
