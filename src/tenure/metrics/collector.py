"""Collector: where counters and observations go; one of your own needs three methods."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

logger = logging.getLogger(__name__)


class Collector(Protocol):
    """Called from several threads, mostly once a batch; what it raises is logged, and the rest goes on."""

    def increment(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """What was collected, as `counters` and `histograms` by name and labels."""
        ...


class ObserveAll(Protocol):
    def __call__(self, name: str, values: Sequence[float], **labels: str) -> None: ...


class NoCollector:
    """Counts nothing."""

    def increment(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def snapshot(self) -> dict[str, dict[str, Any]]:
        return {"counters": {}, "histograms": {}}


def batches(collector: Collector) -> ObserveAll:
    """How to tell a collector of many observations: at once if it has `observe_all`, else one by one."""

    def one_by_one(name: str, values: Sequence[float], **labels: str) -> None:
        for value in values:
            collector.observe(name, value, **labels)

    at_once: ObserveAll = getattr(collector, "observe_all", one_by_one)
    return at_once


class Guarded:
    """A collector that cannot hurt whoever counts: what it raises is logged."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.snapshot = collector.snapshot

    def increment(self, name: str, value: float = 1, **labels: str) -> None:
        try:
            self._collector.increment(name, value, **labels)
        except Exception:
            logger.exception("the collector failed to increment %s", name)

    def observe(self, name: str, value: float, **labels: str) -> None:
        try:
            self._collector.observe(name, value, **labels)
        except Exception:
            logger.exception("the collector failed to observe %s", name)
