"""Statistics: what workers count for each queue and handler in slots of five minutes, and summaries of it.

Durations go to histograms with buckets that grow by a constant factor: small, exact to add, quick to query.
A percentile is exact to within a tenth.
"""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from tenure.events import Settlement

SLOT_MICROSECONDS = 300_000_000  # a day is 288 rows for each queue and handler
By = Literal["queue", "handler"]

_GROWTH = math.log(1.2)
_BUCKETS_PER_DOUBLING = 1 / math.log2(1.2)
_SMALLEST = 1e-5  # seconds; shorter durations count as 0
_log2 = math.log2


class DurationHistogram(Struct, omit_defaults=True):
    """Seconds, as `total` and as counts by bucket; bucket n ends at 1.2 ^ n times ten microseconds."""

    total: float = 0.0
    buckets: dict[int, int] = {}

    def add(self, *durations: float) -> None:
        """Sorts first, so that a batch costs a search for each bucket and not a logarithm for each duration."""
        buckets, ordered, at = self.buckets, sorted(durations), 0
        while at < len(ordered):
            bucket = _bucket(ordered[at])
            end = bisect_right(ordered, bucket, at, key=_bucket)
            buckets[bucket] = buckets.get(bucket, 0) + end - at
            at = end
        self.total += sum(ordered)

    def count(self) -> int:
        return sum(self.buckets.values())

    def mean(self) -> float | None:
        count = self.count()
        return self.total / count if count else None

    def percentile(self, share: float) -> float | None:
        """The duration that this share of all durations does not exceed; None if there are none."""
        wanted = share * self.count()
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return _SMALLEST * math.exp(_GROWTH * (bucket - 0.5)) if bucket else 0.0
        return None


def _bucket(seconds: float) -> int:
    return int(_log2(seconds / _SMALLEST) * _BUCKETS_PER_DOUBLING) + 1 if seconds > _SMALLEST else 0


def merge_histograms(histograms: Iterable[DurationHistogram]) -> DurationHistogram:
    total, buckets = 0.0, defaultdict[int, int](int)
    for histogram in histograms:
        total += histogram.total
        for bucket, count in histogram.buckets.items():
            buckets[bucket] += count
    return DurationHistogram(total, dict(buckets))


class Counts(Struct, omit_defaults=True):
    """Deliveries by status, and what their attempts used; `failed` counts attempts that failed."""

    statuses: dict[str, int] = {}
    failed: int = 0
    waits: DurationHistogram = field(default_factory=DurationHistogram)
    runs: DurationHistogram = field(default_factory=DurationHistogram)
    cpu: float = 0.0

    def add(self, *settlements: Settlement) -> None:
        statuses = self.statuses
        for status, count in Counter([each.status for each in settlements]).items():
            statuses[status.value] = statuses.get(status.value, 0) + count
        self.failed += sum([each.failed for each in settlements])
        runs = [each.run for each in settlements if each.run is not None]
        self.runs.add(*[run.seconds for run in runs])
        self.waits.add(*[run.wait for run in runs if run.wait is not None])
        self.cpu += sum([run.cpu for run in runs if run.cpu is not None])


class Tally(Struct, frozen=True):
    """What a worker counted for one queue and handler in one slot; `slot` is its start, in UTC microseconds.

    `worker` is empty if the counts of all workers were added up. `handler` is empty for jobs that were settled without
    a run.
    """

    slot: int
    queue: str
    handler: str
    worker: str
    counts: Counts


def sum_counts(counts: Iterable[Counts]) -> Counts:
    every = list(counts)
    statuses: Counter[str] = Counter()
    for each in every:
        statuses.update(each.statuses)
    return Counts(
        statuses=dict(statuses),
        failed=sum(each.failed for each in every),
        waits=merge_histograms(each.waits for each in every),
        runs=merge_histograms(each.runs for each in every),
        cpu=sum(each.cpu for each in every),
    )


def merge_slots(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each queue and handler, over all slots; several summaries can then share the sums."""
    return merge_workers(Tally(0, tally.queue, tally.handler, "", tally.counts) for tally in tallies)


def merge_workers(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each slot, queue and handler, over all workers."""
    groups: dict[tuple[int, str, str], list[Counts]] = {}
    for tally in tallies:
        groups.setdefault((tally.slot, tally.queue, tally.handler), []).append(tally.counts)
    return [Tally(*key, "", sum_counts(counts)) for key, counts in groups.items()]


class Percentiles(Struct, frozen=True):
    """Seconds, exact to within a tenth; None if nothing was measured."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class Summary(Struct, frozen=True, kw_only=True):
    """One queue or handler: `done` jobs, `failed` attempts, `retried` and `dead` jobs, jobs that `ended` otherwise.

    `rate` is done jobs per second over the interval; `cpu` is the total in seconds.
    """

    name: str
    done: int
    failed: int
    retried: int
    dead: int
    ended: int
    rate: float
    wait: Percentiles
    run: Percentiles
    cpu: float


def summaries(tallies: Iterable[Tally], seconds: float, by: By = "queue") -> list[Summary]:
    """A summary for each queue, or for each handler, by name; jobs that never ran have no handler and are left out."""
    groups: dict[str, list[Counts]] = {}
    for tally in tallies:
        groups.setdefault(tally.queue if by == "queue" else tally.handler, []).append(tally.counts)
    return [_summary(name, sum_counts(groups[name]), seconds) for name in sorted(groups) if name]


def _summary(name: str, counts: Counts, seconds: float) -> Summary:
    known = counts.statuses
    done = known.get("acked", 0)
    return Summary(
        name=name,
        done=done,
        failed=counts.failed,
        retried=known.get("requeued", 0),
        dead=known.get("dead-lettered", 0) + known.get("rejected", 0),
        ended=sum(known.get(status, 0) for status in ("cancelled", "expired", "skipped-idempotent")),
        rate=done / seconds if seconds else 0.0,
        wait=percentiles(counts.waits),
        run=percentiles(counts.runs),
        cpu=counts.cpu,
    )


def percentiles(histogram: DurationHistogram) -> Percentiles:
    return Percentiles(histogram.mean(), *(histogram.percentile(share) for share in (0.5, 0.95, 0.99)))
