"""Signals: what tells how many workers a queue needs: its depth, its age, what comes in, what goes out, and how long
the rest will take."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

LIVE = ("ready", "delayed", "parked", "leased")
_SOONEST = 5.0  # seconds: what came in within less time says little


class Signals(Struct, frozen=True, kw_only=True):
    """One queue; rates are jobs a second over the last minute or two, None where nobody knows.

    `oldest_age` is for how many seconds the oldest job that could start has waited.
    `seconds_to_drain` is how long what is ready takes at this pace, and so about how long a job waits that comes now;
    None when nothing is done.
    """

    queue: str
    ready: int
    delayed: int
    parked: int
    leased: int
    dead: int
    oldest_age: float | None
    arrival_rate: float | None
    service_rate: float | None
    seconds_to_drain: float | None


class Before(NamedTuple):
    """How many jobs of each queue had not ended, so many seconds ago."""

    seconds: float
    live: Mapping[str, int]


def signals(
    counts: Mapping[str, Mapping[str, int]],
    ages: Mapping[str, float] | None,
    rates: Mapping[str, float] | None,
    before: Before | None,
) -> list[Signals]:
    """By name. What comes in is what goes out, and by how much there is more than before."""
    queues = sorted({*counts, *(rates or {})})
    return [_signals(queue, counts.get(queue, {}), ages, rates, before) for queue in queues]


def _signals(
    queue: str,
    counts: Mapping[str, int],
    ages: Mapping[str, float] | None,
    rates: Mapping[str, float] | None,
    before: Before | None,
) -> Signals:
    ready = counts.get("ready", 0)
    service = None if rates is None else rates.get(queue, 0.0)
    arrival = None
    if service is not None and before is not None and before.seconds >= _SOONEST:
        growth = sum(counts.get(state, 0) for state in LIVE) - before.live.get(queue, 0)
        arrival = max(0.0, service + growth / before.seconds)
    drain = 0.0 if not ready else ready / service if service else None
    age = None if ages is None else ages.get(queue, 0.0)
    return Signals(
        queue=queue,
        ready=ready,
        delayed=counts.get("delayed", 0),
        parked=counts.get("parked", 0),
        leased=counts.get("leased", 0),
        dead=counts.get("dead", 0),
        oldest_age=age,
        arrival_rate=arrival,
        service_rate=service,
        seconds_to_drain=drain,
    )
