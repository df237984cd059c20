"""MeteredBackend: a backend whose verbs a meter counts and times; everything else is the wrapped backend's."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol, TypeVar

from tenure.backends.contract import Backend
from tenure.backends.messages import DEFAULT_SUSPECT_AFTER, Abandon, Ack, Lease, Message, Nack, Park, ReapedLease
from tenure.backends.parts import Parking, Transactions
from tenure.metrics.collector import Collector, MemoryCollector, batch_observer
from tenure.wire.signing import Ring

T = TypeVar("T")
V = TypeVar("V", Ack, Nack, Abandon, Park)
_PUTS_AT_ONCE = 256


class Meter(Protocol):
    """Measures the calls of one backend; each method calls, and returns what the backend answers."""

    def put(self, messages: Sequence[Message], put: Callable[[], list[str]]) -> list[str]: ...

    def add_put(self, seconds: float, error: Exception | None, messages: Sequence[Message]) -> None:
        """A put that the caller has timed, with the error that ended it."""
        ...

    def lease(self, queues: Sequence[str], lease: Callable[[], list[Lease]]) -> list[Lease]: ...

    def settle(self, verb: str, settle: Callable[[Sequence[V]], list[Lease]], verdicts: Sequence[V]) -> list[Lease]: ...

    def tried(self, verb: str, call: Callable[[], T]) -> T:
        """Another call, of which only an error may be counted."""
        ...

    def increment(self, metric: str, count: int) -> None: ...

    def close(self) -> None: ...


NewMeter = Callable[[str], Meter]
"""Makes the meter of a backend, from its URL."""


class MeteredBackend(Backend):
    """Has `meter` measure what `inner` does."""

    def __init__(self, inner: Backend, meter: Meter) -> None:
        self.inner = inner
        self._meter = meter
        self.jobs = inner.jobs
        self.recent = inner.recent
        self.payloads = inner.payloads
        self.queues = inner.queues
        self.dead_letters = inner.dead_letters
        self.control = inner.control
        self.ends = inner.ends
        self.workers = inner.workers
        self.stats = inner.stats
        self.guards = inner.guards
        self.parking = None if inner.parking is None else MeteredParking(inner.parking, meter)
        self.unique = inner.unique
        self.ledger = inner.ledger
        self.archive = inner.archive
        self.audit = inner.audit
        self.transactions = None if inner.transactions is None else MeteredTransactions(inner.transactions, meter)
        self.schema = inner.schema
        self.server = inner.server
        self.file = inner.file
        self.in_process = inner.in_process
        self.runs_on_put = inner.runs_on_put
        self.waits_rarely = inner.waits_rarely

    def put(self, messages: Sequence[Message]) -> list[str]:
        return self._meter.put(messages, lambda: self.inner.put(messages))

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        return self._meter.lease(queues, lambda: self.inner.lease(queues, limit=limit, seconds=seconds, wait=wait))

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return self._meter.settle("ack", self.inner.ack, verdicts)

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return self._meter.settle("nack", self.inner.nack, verdicts)

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return self._meter.settle("abandon", self.inner.abandon, verdicts)

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        lost = self._meter.tried("renew", lambda: self.inner.renew(leases, seconds=seconds))
        self._meter.increment("leases_renewed", len(leases) - len(lost))
        return lost

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        reaped = self._meter.tried("reap", lambda: self.inner.reap(queues, suspect_after=suspect_after))
        self._meter.increment("queue_reap_total", len(reaped))
        return reaped

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return self._meter.tried("has_suspects", lambda: self.inner.has_suspects(queues))

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        return self._meter.lease(queues, lambda: self.inner.lease_suspect(queues, seconds=seconds))

    def close(self) -> None:
        self._meter.close()
        self.inner.close()

    def use_keys(self, ring: Ring) -> None:
        self.inner.use_keys(ring)


class MeteredParking:
    def __init__(self, inner: Parking, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter
        self.wake = inner.wake
        self.waiters = inner.waiters

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return self._meter.settle("park", self._inner.park, verdicts)


class MeteredTransactions:
    def __init__(self, inner: Transactions, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter
        self.holders = inner.holders
        self.aholders = inner.aholders
        self.wake = inner.wake

    def put(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        return self._meter.put(messages, lambda: self._inner.put(connection, messages, wake=wake))

    async def aput(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        begun = perf_counter()
        try:
            stored = await self._inner.aput(connection, messages, wake=wake)
        except Exception as error:
            self._meter.add_put(perf_counter() - begun, error, messages)
            raise
        self._meter.add_put(perf_counter() - begun, None, messages)
        return stored


class BackendMeter:
    """Reports calls to a collector, by the scheme of the backend's URL.

    Puts are reported in groups, because reporting each one costs producers 5 %.
    """

    def __init__(self, url: str, collector: Collector) -> None:
        self._name = url.partition(":")[0].lower()
        self._increment = collector.increment
        self._observe = collector.observe
        self._observe_all = batch_observer(collector)
        self._puts: deque[tuple[float, str, list[str]]] = deque()
        self._flushing = threading.Lock()
        self._collector = collector if isinstance(collector, MemoryCollector) else None
        if self._collector:
            self._collector.add_feeder(self._flush)
        self._group_size = _PUTS_AT_ONCE if self._collector else 1

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
        status = "success" if error is None else "error"
        self._puts.append((seconds, status, [message.queue for message in messages]))
        if len(self._puts) >= self._group_size:
            self._flush()

    def lease(self, queues: Sequence[str], lease: Callable[[], list[Lease]]) -> list[Lease]:  # noqa: ARG002
        begun = perf_counter()
        leases = self.tried("lease", lease)
        self._observe("queue_fetch_duration_seconds", perf_counter() - begun, backend=self._name)
        if leases:
            self._observe("fetch_batch", len(leases))
            self._count("queue_fetch_total", [lease.queue for lease in leases])
        else:
            self._increment("queue_fetch_empty_total", backend=self._name)
        return leases

    def settle(self, verb: str, settle: Callable[[Sequence[V]], list[Lease]], verdicts: Sequence[V]) -> list[Lease]:
        begun = perf_counter()
        lost = self.tried(verb, lambda: settle(verdicts))
        seconds = perf_counter() - begun
        self._observe("queue_settle_duration_seconds", seconds, backend=self._name, verb=verb)
        self._count(f"queue_{verb}_total", [verdict.lease.queue for verdict in verdicts])
        return lost

    def tried(self, verb: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception:
            self._increment("queue_errors_total", backend=self._name, verb=verb)
            raise

    def increment(self, metric: str, count: int) -> None:
        self._increment(metric, count, backend=self._name)

    def close(self) -> None:
        self._flush()
        if self._collector:
            self._collector.remove_feeder(self._flush)

    def _flush(self) -> None:
        with self._flushing:
            puts = [self._puts.popleft() for _ in range(len(self._puts))]
        self._observe_all("queue_enqueue_duration_seconds", [put[0] for put in puts], backend=self._name)
        stored = Counter([(queue, status) for _, status, queues in puts for queue in queues])
        for (queue, status), count in stored.items():
            self._increment("queue_enqueue_total", count, backend=self._name, queue=queue, status=status)

    def _count(self, metric: str, queues: list[str]) -> None:
        for queue, count in Counter(queues).items():
            self._increment(metric, count, backend=self._name, queue=queue)
