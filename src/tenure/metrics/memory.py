"""A collector in memory: counters, and histograms with buckets, of this process."""

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

MOST_SERIES = 5000
_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
T = TypeVar("T", "list[float]", "Histogram")


class Series(NamedTuple):
    """A name and its labels, by name."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}|{';'.join(f'{key}={value}' for key, value in self.labels)}" if self.labels else self.name


class Histogram:
    """Times are counted in buckets of seconds, anything else in buckets of sizes; the last bucket has no bound."""

    __slots__ = ("bounds", "buckets", "count", "high", "low", "total")

    def __init__(self, name: str) -> None:
        self.bounds = _TIMES if name.endswith("_seconds") else _SIZES
        self.buckets = [0] * (len(self.bounds) + 1)
        self.count, self.total = 0, 0.0
        self.low, self.high = float("inf"), float("-inf")

    def add(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self._sum(1, value, value, value)

    def add_all(self, values: Sequence[float]) -> None:
        """Sorted first, so that a batch costs a search for each bucket and not for each value."""
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
    """The oldest series of each kind gives way beyond 5 000."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: OrderedDict[Series, list[float]] = OrderedDict()
        self._histograms: OrderedDict[Series, Histogram] = OrderedDict()
        self._feeders: list[Callable[[], None]] = []
        self._found: dict[tuple[str, ...], list[float] | Histogram] = {}  # by the words of a call, in their order

    def increment(self, name: str, value: float = 1, **labels: str) -> None:
        words = (name, *labels, *labels.values())
        with self._lock:
            found = self._found.get(words)
            if found is None:
                zero: list[float] = [0]
                found = self._find(words, self._counters, Series(name, tuple(sorted(labels.items()))), zero)
            found[0] += value  # type: ignore[index]

    def observe(self, name: str, value: float, **labels: str) -> None:
        words = ("", name, *labels, *labels.values())  # a name may be that of a counter too
        with self._lock:
            (self._found.get(words) or self._histogram(words, name, labels)).add(value)  # type: ignore[union-attr]

    def observe_all(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Many at once; costs little more than one."""
        words = ("", name, *labels, *labels.values())
        if values:
            with self._lock:
                (self._found.get(words) or self._histogram(words, name, labels)).add_all(values)  # type: ignore[union-attr]

    def before_reading(self, feed: Callable[[], None]) -> None:
        """Have this called before anything is read: whoever counts single things may gather them until then."""
        self._feeders.append(feed)

    def let_go(self, feed: Callable[[], None]) -> None:
        """Call this no more."""
        if feed in self._feeders:
            self._feeders.remove(feed)

    def reset(self) -> None:
        with self._lock:
            self._counters.clear()
            self._histograms.clear()
            self._found.clear()

    def snapshot(self) -> dict[str, dict[str, Any]]:
        counters, histograms = self.series()
        shown = {
            str(series): {"count": each.count, "sum": each.total, "min": each.low, "max": each.high}
            for series, each in histograms.items()
        }
        return {"counters": {str(series): value for series, value in counters.items()}, "histograms": shown}

    def series(self) -> tuple[dict[Series, float], dict[Series, Histogram]]:
        """Everything as it is now, for whoever writes it out."""
        for feed in list(self._feeders):
            feed()
        with self._lock:
            counters = {series: value for series, (value,) in self._counters.items()}
            return counters, {series: each.copy() for series, each in self._histograms.items()}

    def _histogram(self, words: tuple[str, ...], name: str, labels: dict[str, str]) -> Histogram:
        return self._find(words, self._histograms, Series(name, tuple(sorted(labels.items()))), Histogram(name))

    def _find(self, words: tuple[str, ...], known: OrderedDict[Series, T], series: Series, new: T) -> T:
        """What the series holds, remembered under the words of the call, so that the next one need not sort them."""
        found = known.setdefault(series, new)
        if len(known) > MOST_SERIES:
            known.popitem(last=False)
            self._found.clear()  # it may have been remembered under several orders of its labels
        if len(self._found) < 2 * MOST_SERIES:
            self._found[words] = found
        return found
