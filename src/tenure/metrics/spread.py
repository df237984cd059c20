"""Spread: how many of which size, in buckets that grow by a constant factor; small, exact to add, quick to ask.

A percentile is right to within a tenth, whatever the sizes are.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

_GROWTH = math.log(1.2)
_STEPS = 1 / math.log2(1.2)  # buckets for each doubling
_SMALLEST = 1e-5  # what is less takes no time
_log2 = math.log2


class Spread(Struct, omit_defaults=True):
    """Seconds, as `total` and as counts by bucket; bucket n ends at 1.2 ^ n times ten microseconds."""

    total: float = 0.0
    buckets: dict[int, int] = {}

    def add(self, *sizes: float) -> None:
        buckets = self.buckets
        for seconds in sizes:
            bucket = int(_log2(seconds / _SMALLEST) * _STEPS) + 1 if seconds > _SMALLEST else 0
            buckets[bucket] = buckets.get(bucket, 0) + 1
        self.total += sum(sizes)

    def count(self) -> int:
        return sum(self.buckets.values())

    def mean(self) -> float | None:
        count = self.count()
        return self.total / count if count else None

    def percentile(self, share: float) -> float | None:
        """A size that this share of all does not exceed; None when there are none."""
        wanted = share * self.count()
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return _SMALLEST * math.exp(_GROWTH * (bucket - 0.5)) if bucket else 0.0
        return None


def merged(spreads: Iterable[Spread]) -> Spread:
    total, buckets = 0.0, defaultdict[int, int](int)
    for spread in spreads:
        total += spread.total
        for bucket, count in spread.buckets.items():
            buckets[bucket] += count
    return Spread(total, dict(buckets))
