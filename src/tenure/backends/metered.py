"""Metered: what a backend is asked, how often, how fast and with what success, told to a collector a call at a time."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from tenure.backends.contract import Backend, Lease, Message
from tenure.metrics.collector import Collector, batches
from tenure.metrics.memory import MemoryCollector

Call = Callable[..., Any]
_GATHERED = 256


def meter(backend: Backend, name: str, collector: Collector) -> None:
    """Have the verbs of this backend counted from now on, under this name."""
    meter = _Meter(name, collector)
    verbs: dict[str, Callable[[str, Call], Call]] = {
        "put": meter.put,
        "put_in": meter.put_in,
        "lease": meter.lease,
        "renew": meter.renew,
        "reap": meter.reap,
        "close": meter.close,
        **dict.fromkeys(("ack", "nack", "abandon", "park"), meter.settle),
    }
    for verb, counted in verbs.items():
        if (call := getattr(backend, verb, None)) is not None:
            setattr(backend, verb, counted(verb, call))


class _Meter:
    """Each method makes of a verb the same one, counted."""

    def __init__(self, name: str, collector: Collector) -> None:
        self._name = name
        self._increment = collector.increment
        self._observe = collector.observe
        self._observe_all = batches(collector)
        self._puts: deque[tuple[float, str, list[str]]] = deque()
        self._feeding = threading.Lock()
        self._collector = collector if isinstance(collector, MemoryCollector) else None
        if self._collector:
            self._collector.before_reading(self.feed)
        self._most = _GATHERED if self._collector else 1

    def put(self, _verb: str, put: Call) -> Call:
        def counted(messages: Sequence[Message]) -> Any:
            begun, status = perf_counter(), "error"
            try:
                stored = put(messages)
                status = "success"
                return stored
            finally:
                self._enqueued(messages, status, perf_counter() - begun)

        return counted

    def put_in(self, verb: str, put_in: Call) -> Call:
        def counted(connection: Any, messages: Sequence[Message], **options: Any) -> Any:
            return self.put(verb, lambda messages: put_in(connection, messages, **options))(messages)

        return counted

    def lease(self, verb: str, lease: Call) -> Call:
        def counted(queues: Sequence[str], **options: Any) -> Any:
            begun = perf_counter()
            leases = self._tried(verb, lease, queues, **options)
            self._observe("queue_fetch_duration_seconds", perf_counter() - begun, backend=self._name)
            if leases:
                self._observe("fetch_batch", len(leases))
                self._count("queue_fetch_total", [lease.queue for lease in leases])
            else:
                self._increment("queue_fetch_empty_total", backend=self._name)
            return leases

        return counted

    def settle(self, verb: str, settle: Call) -> Call:
        name = f"queue_{verb}_total"

        def counted(verdicts: Sequence[Any]) -> Any:
            begun = perf_counter()
            lost = self._tried(verb, settle, verdicts)
            seconds = perf_counter() - begun
            self._observe("queue_settle_duration_seconds", seconds, backend=self._name, verb=verb)
            self._count(name, [verdict.lease.queue for verdict in verdicts])
            return lost

        return counted

    def renew(self, verb: str, renew: Call) -> Call:
        def counted(leases: Sequence[Lease], **options: Any) -> Any:
            lost = self._tried(verb, renew, leases, **options)
            self._increment("leases_renewed", len(leases) - len(lost), backend=self._name)
            return lost

        return counted

    def reap(self, verb: str, reap: Call) -> Call:
        def counted(queues: Sequence[str]) -> Any:
            reaped = self._tried(verb, reap, queues)
            self._increment("queue_reap_total", len(reaped), backend=self._name)
            return reaped

        return counted

    def close(self, _verb: str, close: Call) -> Call:
        def counted() -> None:
            self.feed()
            if self._collector:
                self._collector.let_go(self.feed)
            close()

        return counted

    def _tried(self, verb: str, call: Call, *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except Exception:
            self._increment("queue_errors_total", backend=self._name, verb=verb)
            raise

    def _enqueued(self, messages: Sequence[Message], status: str, seconds: float) -> None:
        """Most enqueue one job at a time: these are gathered, because telling of each would cost them 5 %."""
        puts = self._puts
        puts.append((seconds, status, [message.queue for message in messages]))
        if len(puts) >= self._most:
            self.feed()

    def feed(self) -> None:
        with self._feeding:
            puts = [self._puts.popleft() for _ in range(len(self._puts))]
        self._observe_all("queue_enqueue_duration_seconds", [put[0] for put in puts], backend=self._name)
        stored = Counter([(queue, status) for _, status, queues in puts for queue in queues])
        for (queue, status), count in stored.items():
            self._increment("queue_enqueue_total", count, backend=self._name, queue=queue, status=status)

    def _count(self, name: str, queues: list[str]) -> None:
        for queue, count in Counter(queues).items():
            self._increment(name, count, backend=self._name, queue=queue)
