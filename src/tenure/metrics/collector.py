"""Collector: where counters and observations go; users may supply their own with three methods."""

import logging
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

logger = logging.getLogger(__name__)

MAX_SERIES = 5000
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
T = TypeVar("T", "list[float]", "Histogram")


class Collector(Protocol):
    """Called from several threads, mostly once per batch; an exception is logged, and the worker continues."""

    def increment(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """What was collected, as `counters` and `histograms` by name and labels."""
        ...


ObserveAll = Callable[..., None]
"""Called as `(name, values, **labels)`."""


def batch_observer(collector: Collector) -> ObserveAll:
    """A function that passes many observations: in one call if the collector has `observe_all`, else one by one."""

    def one_by_one(name: str, values: Sequence[float], **labels: str) -> None:
        for value in values:
            collector.observe(name, value, **labels)

    in_one_call: ObserveAll = getattr(collector, "observe_all", one_by_one)
    return in_one_call


class NoCollector:
    """Collects nothing."""

    def increment(self, name: str, value: float = 1, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def snapshot(self) -> dict[str, dict[str, Any]]:
        return {"counters": {}, "histograms": {}}


class SafeCollector:
    """Passes calls on to a collector of the user, and logs what it raises."""

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


class Series(NamedTuple):
    """A name and its labels, sorted by name."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}|{';'.join(f'{key}={value}' for key, value in self.labels)}" if self.labels else self.name


def _series(name: str, labels: dict[str, str]) -> Series:
    """A label that is no text, or none that UTF-8 can hold, would spoil the whole page."""
    plain = {label: str(value).encode("utf-8", "backslashreplace").decode() for label, value in labels.items()}
    return Series(name, tuple(sorted(plain.items())))


class Histogram:
    """Times are counted in buckets of seconds, other values in buckets of sizes; the last bucket has no bound."""

    __slots__ = ("bounds", "buckets", "count", "high", "low", "total")

    def __init__(self, name: str) -> None:
        self.bounds = SECONDS if name.endswith("_seconds") else _SIZES
        self.buckets = [0] * (len(self.bounds) + 1)
        self.count, self.total = 0, 0.0
        self.low, self.high = float("inf"), float("-inf")

    def add(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self._sum(1, value, value, value)

    def add_all(self, values: Sequence[float]) -> None:
        """Sorts first, so that a batch costs a search for each bucket and not for each value."""
        ordered, at = sorted(values), 0
        for place, bound in enumerate(self.bounds):
            end = bisect_right(ordered, bound, at)
            self.buckets[place] += end - at
            at = end
            if at == len(ordered):
                break
        self.buckets[-1] += len(ordered) - at
        self._sum(len(ordered), sum(ordered), ordered[0], ordered[-1])

    def _sum(self, count: int, total: float, low: float, high: float) -> None:
        self.count += count
        self.total += total
        if low < self.low:
            self.low = low
        if high > self.high:
            self.high = high

    def copy(self) -> "Histogram":
        made = Histogram.__new__(Histogram)
        made.bounds, made.buckets = self.bounds, list(self.buckets)
        made.count, made.total, made.low, made.high = self.count, self.total, self.low, self.high
        return made


class MemoryCollector:
    """Counters and histograms of this process; above 5 000 series of a kind, the oldest is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: OrderedDict[Series, list[float]] = OrderedDict()
        self._histograms: OrderedDict[Series, Histogram] = OrderedDict()
        self._feeders: list[Callable[[], None]] = []
        self._by_call: dict[tuple[str, ...], list[float] | Histogram] = {}  # by name and labels in the caller's order

    def increment(self, name: str, value: float = 1, **labels: str) -> None:
        call = (name, *labels, *labels.values())
        with self._lock:
            found = self._by_call.get(call)
            if found is None:
                zero: list[float] = [0]
                found = self._find(call, self._counters, _series(name, labels), zero)
            found[0] += value  # type: ignore[index]

    def observe(self, name: str, value: float, **labels: str) -> None:
        call = ("", name, *labels, *labels.values())  # "": a counter may have the same name
        with self._lock:
            (self._by_call.get(call) or self._histogram(call, name, labels)).add(value)  # type: ignore[union-attr]

    def observe_all(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Many values in one call; costs little more than one value."""
        call = ("", name, *labels, *labels.values())
        if values:
            with self._lock:
                (self._by_call.get(call) or self._histogram(call, name, labels)).add_all(values)  # type: ignore[union-attr]

    def add_feeder(self, feed: Callable[[], None]) -> None:
        """Call `feed` before every read; a caller that counts single things can gather them until then."""
        self._feeders.append(feed)

    def remove_feeder(self, feed: Callable[[], None]) -> None:
        if feed in self._feeders:
            self._feeders.remove(feed)

    def reset(self) -> None:
        with self._lock:
            self._counters.clear()
            self._histograms.clear()
            self._by_call.clear()

    def snapshot(self) -> dict[str, dict[str, Any]]:
        counters, histograms = self.series()
        shown = {
            str(series): {"count": each.count, "sum": each.total, "min": each.low, "max": each.high}
            for series, each in histograms.items()
        }
        return {"counters": {str(series): value for series, value in counters.items()}, "histograms": shown}

    def series(self) -> tuple[dict[Series, float], dict[Series, Histogram]]:
        """Copies of all counters and histograms."""
        for feed in list(self._feeders):
            feed()
        with self._lock:
            counters = {series: value for series, (value,) in self._counters.items()}
            return counters, {series: each.copy() for series, each in self._histograms.items()}

    def _histogram(self, call: tuple[str, ...], name: str, labels: dict[str, str]) -> Histogram:
        return self._find(call, self._histograms, _series(name, labels), Histogram(name))

    def _find(self, call: tuple[str, ...], known: OrderedDict[Series, T], series: Series, new: T) -> T:
        """The value of the series, cached by the caller's order of labels, so that the next call need not sort them."""
        found = known.setdefault(series, new)
        if len(known) > MAX_SERIES:
            known.popitem(last=False)
            self._by_call.clear()  # it may have been cached under several orders of its labels
        if len(self._by_call) < 2 * MAX_SERIES:
            self._by_call[call] = found
        return found
