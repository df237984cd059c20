"""QueueSignals: what an autoscaler must know about a queue: depth, age, arrival and service rate, time to drain."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from tenure.events import LIVE_STATES
from tenure.metrics.counters import Gauge

_MIN_INTERVAL = 5.0  # seconds: over a shorter time the arrival rate means little


class QueueSignals(Struct, frozen=True, kw_only=True):
    """One queue; rates are jobs per second over the last one or two minutes, None if they are not known.

    `oldest_age` is how many seconds the oldest job that could start has waited.
    `seconds_to_drain` is how long the ready jobs take at this rate, and so about how long a new job waits;
    None if no job is being done. `workers` are the live workers that lease from the queue.
    """

    queue: str
    ready: int
    delayed: int
    parked: int
    leased: int
    dead: int
    oldest_age: float | None
    arrival_rate: float | None
    service_rate: float | None
    seconds_to_drain: float | None
    workers: int | None = None


class EarlierCounts(NamedTuple):
    """How many live jobs each queue had, `seconds` ago."""

    seconds: float
    live: Mapping[str, int]


def queue_signals(
    counts: Mapping[str, Mapping[str, int]],
    ages: Mapping[str, float] | None,
    rates: Mapping[str, float] | None,
    before: EarlierCounts | None,
    workers: Mapping[str, int] | None = None,
) -> list[QueueSignals]:
    """The signals of all queues, by name; arrival rate = service rate + growth of the queue."""
    queues = sorted({*counts, *(() if rates is None else rates)})
    return [
        _signals_of(
            queue,
            counts.get(queue, {}),
            ages,
            rates,
            before,
            None if workers is None else workers.get(queue, 0),
        )
        for queue in queues
    ]


def _signals_of(
    queue: str,
    counts: Mapping[str, int],
    ages: Mapping[str, float] | None,
    rates: Mapping[str, float] | None,
    before: EarlierCounts | None,
    workers: int | None,
) -> QueueSignals:
    ready = counts.get("ready", 0)
    service = None if rates is None else rates.get(queue, 0.0)
    arrival = None
    if service is not None and before is not None and before.seconds >= _MIN_INTERVAL:
        growth = sum(counts.get(state, 0) for state in LIVE_STATES) - before.live.get(queue, 0)
        arrival = max(0.0, service + growth / before.seconds)
    drain = 0.0 if not ready else ready / service if service else None
    age = None if ages is None else ages.get(queue, 0.0)
    return QueueSignals(
        queue=queue,
        ready=ready,
        delayed=counts.get("delayed", 0),
        parked=counts.get("parked", 0),
        leased=counts.get("leased", 0),
        dead=counts.get("dead", 0),
        oldest_age=age,
        arrival_rate=arrival,
        service_rate=service,
        seconds_to_drain=drain,
        workers=workers,
    )


def queue_gauges(signals: Iterable[QueueSignals]) -> Iterator[Gauge]:
    """The signals as gauges of the metrics page; unknown values are left out."""
    for each in signals:
        labels = (("queue", each.queue),)
        for state in (*LIVE_STATES, "dead"):
            yield "tenure_queue_jobs", (*labels, ("state", state)), getattr(each, state)
        known = {
            "tenure_queue_oldest_age_seconds": each.oldest_age,
            "tenure_queue_arrival_jobs_per_second": each.arrival_rate,
            "tenure_queue_service_jobs_per_second": each.service_rate,
            "tenure_queue_drain_seconds": each.seconds_to_drain,
            "tenure_queue_workers": each.workers,
        }
        yield from ((name, labels, value) for name, value in known.items() if value is not None)


def backend_up_gauge(up: bool) -> Gauge:
    return "tenure_backend_up", (), float(up)
