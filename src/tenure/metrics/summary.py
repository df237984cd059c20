"""Summary: what became of jobs over an interval, and how long they waited and ran, from what workers counted."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tenure.metrics.spread import Spread
from tenure.metrics.tally import Counts, Tally, summed

By = Literal["queue", "handler"]


class Percentiles(Struct, frozen=True):
    """Seconds, right to within a tenth; None when nothing was measured."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class Summary(Struct, frozen=True, kw_only=True):
    """One queue or handler: `done` jobs, `failed` attempts, `retried` and `dead` jobs, `ended` otherwise.

    `rate` is done jobs a second over the interval; `cpu` is seconds in all.
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
    """A summary for each queue, or for each handler, by name; without a handler are those that never ran."""
    groups: dict[str, list[Counts]] = {}
    for tally in tallies:
        groups.setdefault(tally.queue if by == "queue" else tally.handler, []).append(tally.counts)
    return [_summary(name, summed(groups[name]), seconds) for name in sorted(groups) if name]


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
        wait=_percentiles(counts.waits),
        run=_percentiles(counts.runs),
        cpu=counts.cpu,
    )


def _percentiles(spread: Spread) -> Percentiles:
    return Percentiles(spread.mean(), *(spread.percentile(share) for share in (0.5, 0.95, 0.99)))
