"""Series: what workers counted, as values over time for charts; the slots of the statistics are five minutes long.

A week of statistics is tens of thousands of rows. So slots that no worker writes any more are read once, and kept.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from tenure.app.dashboard.background import FIRST_WAIT_SECONDS
from tenure.backends.parts import StatsStore
from tenure.clock import MICROSECOND, to_datetime
from tenure.metrics.statistics import SLOT_MICROSECONDS, Counts, DurationHistogram, Tally, merge_workers

if TYPE_CHECKING:  # the core has the history among its sources
    from tenure.app.dashboard.core import Sources

Window = Literal["15m", "1h", "24h", "7d"]
WINDOW_SECONDS: dict[Window, int] = {"15m": 900, "1h": 3600, "24h": 86_400, "7d": 604_800}
# The longer the window, the less a moment changes, and the more it costs to add it up.
SHARED_SECONDS: dict[Window, float] = {"15m": 2.0, "1h": 2.0, "24h": 10.0, "7d": 30.0}
_MAX_POINTS = 288  # of one line: a day of slots; a longer window joins slots
_FINAL_AFTER = 2 * SLOT_MICROSECONDS  # a worker saves a slot within seconds after its end
_READ_AGAIN_SECONDS = 3600.0  # a worker that could not reach the store may save later
_CHUNK = 86_400 * MICROSECOND  # of one read, so that a week of rows is never in memory at once
_LEAST_ELAPSED = 60.0  # seconds of a slot: workers save what they counted every few seconds
_TOP_LINES = 3


class Line(Struct, frozen=True):
    """Values over the times of its chart; None where nothing was measured."""

    name: str
    values: tuple[float | None, ...]


class Chart(Struct, frozen=True, kw_only=True):
    """Lines over time; `seconds` is the length of a slot of the statistics, None for samples of this process."""

    times: tuple[datetime, ...] = ()
    lines: tuple[Line, ...] = ()
    seconds: float | None = None


class SlotSeries(Struct, frozen=True, kw_only=True):
    """The tallies of a window, slot by slot; `starts` are the begins of all slots, also of those without tallies.

    `seconds` is the length of a slot, `elapsed` that of the last one so far. Without `is_read`, a thread still reads
    the statistics, and there are no tallies yet.
    """

    starts: tuple[int, ...]
    seconds: float
    elapsed: float
    tallies: tuple[Tally, ...]
    is_read: bool = True

    def length(self, start: int) -> float:
        """How many seconds of the slot have passed."""
        return self.elapsed if start == self.starts[-1] else self.seconds

    def rates(self, counts: Sequence[int]) -> tuple[float, ...]:
        """Counts of all slots as rates per second; a slot that has just begun takes the one before into account."""
        rates = [count / self.length(start) for start, count in zip(self.starts, counts, strict=True)]
        if self.elapsed < _LEAST_ELAPSED and len(rates) > 1:
            rates[-1] = (counts[-1] + counts[-2]) / (self.elapsed + self.seconds)
        return tuple(rates)

    def chart(self, *lines: tuple[str, Sequence[float | None]]) -> Chart:
        """A chart whose values are those of the slots."""
        return Chart(
            times=tuple(map(to_datetime, self.starts)),
            lines=tuple(Line(name, tuple(values)) for name, values in lines),
            seconds=self.seconds,
        )


class WorkSum:
    """What some tallies have together, added up in one pass over them: a day has thousands, each with a histogram."""

    __slots__ = ("_buckets", "_seconds", "died", "done", "failed")

    def __init__(self) -> None:
        self.done = self.failed = self.died = 0
        self._seconds = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, counts: Counts) -> None:
        statuses = counts.statuses
        self.done += statuses.get("acked", 0)
        self.died += statuses.get("dead-lettered", 0) + statuses.get("rejected", 0)
        self.failed += counts.failed
        self.add_durations(counts.runs)

    def add_durations(self, histogram: DurationHistogram) -> None:
        self._seconds += histogram.total
        buckets = self._buckets
        for bucket, count in histogram.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count

    def join(self, other: "WorkSum") -> None:
        self.done, self.failed, self.died = (
            self.done + other.done,
            self.failed + other.failed,
            self.died + other.died,
        )
        self.add_durations(other.durations)

    @property
    def durations(self) -> DurationHistogram:
        return DurationHistogram(self._seconds, self._buckets)

    @property
    def attempts(self) -> int:
        return max(sum(self._buckets.values()), self.failed)

    @property
    def failed_share(self) -> float | None:
        return self.failed / self.attempts if self.attempts else None


class SlotHistory:
    """Reads the statistics, and keeps the slots that are over, added up over workers, by the width of a slot."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, _KeptSlots] = {}
        self._latest: dict[Window, tuple[float, SlotSeries]] = {}

    def slots(self, stats: StatsStore | None, now: int, window: Window) -> SlotSeries:
        """The slots of a window; several viewers share them for a moment."""
        known = self._latest.get(window)
        if known is None or time.monotonic() >= known[0]:
            known = (time.monotonic() + SHARED_SECONDS[window], self._read(stats, now, window))
            self._latest[window] = known
        return known[1]

    def _read(self, stats: StatsStore | None, now: int, window: Window) -> SlotSeries:
        starts, width = slot_starts(now, window)
        with self._lock:
            kept = self._kept.get(width)
            if kept is None or kept.first > starts[0] or time.monotonic() > kept.read_at + _READ_AGAIN_SECONDS:
                kept = self._kept[width] = _KeptSlots(width, starts[0])
        tallies = [] if stats is None else kept.read(stats, starts, now)
        return _slots(starts, width, now, tallies)


def slot_starts(now: int, window: Window) -> tuple[range, int]:
    """The begins of the slots of a window, and their width in microseconds."""
    count = WINDOW_SECONDS[window] * MICROSECOND // SLOT_MICROSECONDS
    width = SLOT_MICROSECONDS * max(1, -(-count // _MAX_POINTS))
    last = now // width * width
    return range(last - (count * SLOT_MICROSECONDS // width - 1) * width, last + 1, width), width


def _slots(starts: range, width: int, now: int, tallies: Iterable[Tally], *, is_read: bool = True) -> SlotSeries:
    elapsed = max(1.0, (now - starts[-1]) / MICROSECOND)
    return SlotSeries(
        starts=tuple(starts), seconds=width / MICROSECOND, elapsed=elapsed, tallies=tuple(tallies), is_read=is_read
    )


class _KeptSlots:
    """SlotSeries of one width from `first` on, as far as they are final."""

    def __init__(self, width: int, first: int) -> None:
        self.first = first
        self.read_at = time.monotonic()
        self._lock = threading.Lock()
        self._width = width
        self._next = first
        self._slots: dict[int, list[Tally]] = {}

    def read(self, stats: StatsStore, starts: range, now: int) -> list[Tally]:
        """The tallies of these slots."""
        with self._lock:
            return self._read(stats, starts, now)

    def _read(self, stats: StatsStore, starts: range, now: int) -> list[Tally]:
        fresh: list[Tally] = []
        for begin in range(self._next, now + 1, _CHUNK):
            end = min(begin + _CHUNK, now + SLOT_MICROSECONDS)
            fresh = merge_workers([*fresh, *map(self._widened, stats.read(begin, end))])
        final = (now - _FINAL_AFTER) // self._width * self._width
        for tally in fresh:
            if tally.slot < final:
                self._slots.setdefault(tally.slot, []).append(tally)
        self._next = max(self._next, final)
        oldest = now - (_MAX_POINTS + 1) * self._width
        for slot in [slot for slot in self._slots if slot < oldest]:
            del self._slots[slot]
        self.first = max(self.first, oldest)
        kept = (tally for start in starts for tally in self._slots.get(start, ()))
        # A worker whose clock is ahead may have counted in a slot that has not begun here.
        return [*kept, *(tally for tally in fresh if tally.slot >= final and tally.slot in starts)]

    def _widened(self, tally: Tally) -> Tally:
        return Tally(tally.slot // self._width * self._width, tally.queue, tally.handler, "", tally.counts)


def slots_of(sources: "Sources", window: Window, queues: Iterable[str] | None = None) -> SlotSeries:
    """What workers counted in the window, in all queues or in these; a week is read in the background."""
    now = sources.app.clock.now()
    if window == "7d":
        answer = sources.background.get(
            "the statistics of a week",
            lambda: sources.history.slots(sources.parts.stats, now, window),
            SHARED_SECONDS[window],
            FIRST_WAIT_SECONDS,
        )
        starts, width = slot_starts(now, window)
        found = answer.value or _slots(starts, width, now, (), is_read=False)
    else:
        found = sources.history.slots(sources.parts.stats, now, window)
    if queues is None:
        return found
    seen = set(queues)
    return structs.replace(found, tallies=tuple(tally for tally in found.tallies if tally.queue in seen))


def queue_rates(slots: SlotSeries) -> dict[str, tuple[float, ...]]:
    """The jobs done per second in each slot, by queue."""
    found: dict[str, dict[int, int]] = {}
    for tally in slots.tallies:
        by_slot = found.setdefault(tally.queue, {})
        by_slot[tally.slot] = by_slot.get(tally.slot, 0) + tally.counts.statuses.get("acked", 0)
    return {queue: slots.rates([by_slot.get(start, 0) for start in slots.starts]) for queue, by_slot in found.items()}


def sampled_chart(
    sources: "Sources", window: Window, values: Callable[[dict[str, int], dict[str, float]], dict[str, float]]
) -> Chart:
    """A chart of what the recorder sampled: of the values of each sample, the lines that are highest at the end.

    `values` gives the values of a sample by name, from its ready jobs and its oldest ages by queue. Samples of a long
    window are joined to the highest, so that no peak is lost.
    """
    now = sources.app.clock.now()
    start = now - WINDOW_SECONDS[window] * MICROSECOND
    samples = [sample for sample in sources.recorder.samples() if sample.at >= start]
    size = max(1, -(-len(samples) // _MAX_POINTS))
    groups = [samples[at : at + size] for at in range(0, len(samples), size)]
    found = [_highest(values(sample.ready, sample.oldest) for sample in group) for group in groups]
    names = sorted(found[-1], key=lambda name: -found[-1][name])[:_TOP_LINES] if found else []
    return Chart(
        times=tuple(to_datetime(group[-1].at) for group in groups),
        lines=tuple(Line(name, tuple(each.get(name, 0.0) for each in found)) for name in names),
    )


def _highest(samples: Iterable[dict[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in samples:
        for name, value in sample.items():
            found[name] = max(value, found.get(name, value))
    return found
