"""Metrics of OpenTelemetry: those of version 1.44 of its conventions for messaging, and Tenure's own counters.

They are recorded in the process that enqueues and in the worker, which measures the jobs of its child processes too.
It uses only the API of OpenTelemetry. Import it only if it is wanted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from opentelemetry import metrics as api

from tenure.app.spans import DESTINATION, SCHEMA_URL, SYSTEM, server_attributes
from tenure.backends.messages import Lease, Message
from tenure.backends.metered import NewMeter, T, V
from tenure.events import Event, Settled, Settlement
from tenure.metrics.collector import SECONDS

Attributes = dict[str, str | int]
_BUCKETS = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
)  # as the conventions advise
_PREFIX = "tenure."
_SECONDS_SUFFIX = "_seconds"


def new_meter() -> NewMeter:
    """Makes the meter of a backend, for the metrics of the conventions."""
    operations = OperationMetrics(_meter())
    return lambda url: BackendOperations(operations, server_attributes(url))


def _meter() -> api.Meter:
    return api.get_meter("tenure", schema_url=SCHEMA_URL)


def _duration(meter: api.Meter, name: str, description: str, buckets: Sequence[float] = _BUCKETS) -> api.Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=buckets)


class OperationMetrics:
    """The metrics of producers and consumers."""

    def __init__(self, meter: api.Meter) -> None:
        self.duration = _duration(meter, "messaging.client.operation.duration", "Duration of calls of the backend.")
        self.sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs that were enqueued.")
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Jobs that were leased."
        )


class BackendOperations:
    """Measures the calls of one backend: `send`, `lease`, and the verbs that settle."""

    def __init__(self, metrics: OperationMetrics, server: Mapping[str, str | int]) -> None:
        self._metrics = metrics
        self._shared = {**SYSTEM, **server}

    def put(self, messages: Sequence[Message], put: Callable[[], list[str]]) -> list[str]:
        begun = perf_counter()
        try:
            stored = put()
        except Exception as error:
            self.add_put(perf_counter() - begun, error, messages)
            raise
        self.add_put(perf_counter() - begun, None, messages)
        return stored

    def add_put(self, seconds: float, error: Exception | None, messages: Sequence[Message]) -> None:
        queues = Counter([message.queue for message in messages])
        self._record(seconds, "send", "send", list(queues), error)
        for queue, count in queues.items():
            self._metrics.sent.add(count, self._described("send", None, [queue], error))

    def lease(self, queues: Sequence[str], lease: Callable[[], list[Lease]]) -> list[Lease]:
        """A call that ended without a job is not recorded: it waited for one."""
        begun = perf_counter()
        try:
            leases = lease()
        except Exception as error:
            self._record(perf_counter() - begun, "lease", "receive", queues, error)
            raise
        if leases:
            found = Counter([lease.queue for lease in leases])
            self._record(perf_counter() - begun, "lease", "receive", list(found), None)
            for queue, count in found.items():
                self._metrics.consumed.add(count, self._described("lease", None, [queue], None))
        return leases

    def settle(self, verb: str, settle: Callable[[Sequence[V]], list[Lease]], verdicts: Sequence[V]) -> list[Lease]:
        queues = list({verdict.lease.queue for verdict in verdicts})
        begun = perf_counter()
        try:
            lost = settle(verdicts)
        except Exception as error:
            self._record(perf_counter() - begun, verb, "settle", queues, error)
            raise
        self._record(perf_counter() - begun, verb, "settle", queues, None)
        return lost

    def tried(self, verb: str, call: Callable[[], T]) -> T:  # noqa: ARG002 - the conventions have no such operation
        return call()

    def increment(self, metric: str, count: int) -> None: ...

    def close(self) -> None: ...

    def _record(self, seconds: float, verb: str, kind: str, queues: Sequence[str], error: Exception | None) -> None:
        self._metrics.duration.record(seconds, self._described(verb, kind, queues, error))

    def _described(self, verb: str, kind: str | None, queues: Sequence[str], error: Exception | None) -> Attributes:
        """The attributes of an operation; it has a destination if it concerns one queue."""
        attributes: Attributes = {**self._shared, "messaging.operation.name": verb}
        if kind is not None:
            attributes["messaging.operation.type"] = kind
        if len(queues) == 1:
            attributes[DESTINATION] = queues[0]
        if error is not None:
            attributes["error.type"] = type(error).__qualname__
        return attributes


class ProcessMetrics:
    """A listener that records how long attempts ran, also those of killed children."""

    def __init__(self) -> None:
        self._duration = _duration(_meter(), "messaging.process.duration", "Duration of attempts.")

    def __call__(self, event: Event) -> None:
        if isinstance(event, Settled):
            for each in event.settlements:
                if each.run is not None:
                    self._duration.record(each.run.seconds, _described_attempt(each, each.run.handler))


def _described_attempt(settlement: Settlement, handler: str) -> Attributes:
    attributes: Attributes = {
        **SYSTEM, "messaging.operation.name": "process", DESTINATION: settlement.queue, "tenure.handler": handler,
    }  # fmt: skip
    if settlement.error is not None:
        attributes["error.type"] = settlement.error.partition(":")[0]
    return attributes


class OpenTelemetryCollector:
    """A collector that passes Tenure's own counters, observations and gauges on, as `tenure.` and their name."""

    def __init__(self) -> None:
        self._meter = _meter()
        self._counters: dict[str, Any] = {}
        self._histograms: dict[str, Any] = {}
        self._gauges: dict[str, Any] = {}

    def increment(self, name: str, value: float = 1, **labels: str) -> None:
        counter = self._counters.get(name)
        if counter is None:  # the SDK gives the same instrument to threads that ask at once
            counter = self._counters[name] = self._meter.create_counter(_full_name(name))
        counter.add(value, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._histograms[name] = self._create_histogram(name)
        histogram.record(value, labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        gauge = self._gauges.get(name)
        if gauge is None:
            unit = "s" if name.endswith(_SECONDS_SUFFIX) else ""
            made = self._meter.create_gauge(_full_name(name.removesuffix(_SECONDS_SUFFIX)), unit)
            gauge = self._gauges[name] = made
        gauge.set(value, labels)

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Nothing: a metric reader of the SDK has what was recorded."""
        return {"counters": {}, "histograms": {}}

    def _create_histogram(self, name: str) -> api.Histogram:
        if name.endswith(_SECONDS_SUFFIX):
            return _duration(self._meter, _full_name(name.removesuffix(_SECONDS_SUFFIX)), "", SECONDS)
        return self._meter.create_histogram(_full_name(name))


def _full_name(name: str) -> str:
    """Counters and gauges of outboxes and queues begin with `tenure_` everywhere."""
    return _PREFIX + name.removeprefix("tenure_")
