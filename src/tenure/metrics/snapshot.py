"""Snapshot: the metrics of a process at one moment, as a value that processes send to each other and add up."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from tenure.metrics.collector import MemoryCollector, Series

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
