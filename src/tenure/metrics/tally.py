"""Tally: what workers did with the jobs of one queue and handler in one stretch of time."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from tenure.events import Settlement
from tenure.metrics.spread import Spread, merged

SLOT = 300_000_000  # microseconds: a day is 288 rows for each queue and handler


class Counts(Struct, omit_defaults=True):
    """Deliveries by what became of them, and what their attempts took; `failed` are attempts that went wrong."""

    statuses: dict[str, int] = {}
    failed: int = 0
    waits: Spread = field(default_factory=Spread)
    runs: Spread = field(default_factory=Spread)
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
    """`slot` is when its stretch began, in UTC microseconds; `worker` is empty where the counts of all were added up.

    The handler is empty for what was settled without being run.
    """

    slot: int
    queue: str
    handler: str
    worker: str
    counts: Counts


def summed(counts: Iterable[Counts]) -> Counts:
    every = list(counts)
    statuses: Counter[str] = Counter()
    for each in every:
        statuses.update(each.statuses)
    return Counts(
        statuses=dict(statuses),
        failed=sum(each.failed for each in every),
        waits=merged(each.waits for each in every),
        runs=merged(each.runs for each in every),
        cpu=sum(each.cpu for each in every),
    )


def gathered(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each queue and handler, over all slots; what is asked of it in several ways is added up once."""
    return folded(Tally(0, tally.queue, tally.handler, "", tally.counts) for tally in tallies)


def folded(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each slot, queue and handler, whoever counted."""
    groups: dict[tuple[int, str, str], list[Counts]] = {}
    for tally in tallies:
        groups.setdefault((tally.slot, tally.queue, tally.handler), []).append(tally.counts)
    return [Tally(*key, "", summed(counts)) for key, counts in groups.items()]
