"""The health of an app: jobs per queue and state, statistics of the last hours, and facts about the server."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.results import summarise_stats
from tenure.app.tenure import Tenure
from tenure.backends.records import Fact
from tenure.backends.url import without_secrets
from tenure.definition.duration import to_seconds
from tenure.errors import SettingsError
from tenure.events import JOB_STATES
from tenure.metrics.queue_signals import QueueSignals
from tenure.metrics.statistics import Summary

_COUNTED_STATES = ("ready", "delayed", "parked", "leased", "dead")


class SchemaVersions(Struct, frozen=True):
    stored: int
    needed: int


class RateUsage(Struct, frozen=True, kw_only=True):
    """How much of the rate of a queue is used; the next start is possible in `again` seconds."""

    queue: str
    rate: str | int
    used: int
    burst: int
    again: float


class Health(Struct, frozen=True, kw_only=True):
    """What `tenure health` shows; None where the backend does not know it."""

    backend: str
    schema: SchemaVersions | None
    facts: tuple[Fact, ...]
    queues: dict[str, dict[str, int]] | None
    signals: tuple[QueueSignals, ...] | None
    rates: tuple[RateUsage, ...]
    last: str
    by_queue: tuple[Summary, ...] | None
    by_handler: tuple[Summary, ...] | None


class HealthQuery(Struct, frozen=True, kw_only=True):
    """`last` is how far back the statistics go; with `ended`, ended jobs are counted too, which is slow."""

    page: ClassVar[str] = "health"
    last: str = "24h"
    ended: bool = False
    queues: tuple[str, ...] = ()

    def read(self, sources: Sources, access: Access) -> Health:
        for queue in self.queues:
            access.check_queue(queue)
        return read_health(sources.app, self.last, self.ended, self.queues or access.queues or ())


def read_health(app: Tenure, last: str, with_ended: bool, only: Sequence[str] = ()) -> Health:
    """The health of all queues, or only of these."""
    backend, parts = app.backend, app.parts()
    counts = None if parts.queues is None else parts.queues.counts(ended=with_ended)
    if counts is not None:
        states = JOB_STATES if with_ended else _COUNTED_STATES
        none = dict.fromkeys(states, 0)
        shown = only or list(counts)
        counts = {queue: {state: counts.get(queue, none)[state] for state in states} for queue in shown}
    seconds = to_seconds(last, "--last")
    by_queue: tuple[Summary, ...] | None = None
    by_handler: tuple[Summary, ...] | None = None
    if parts.stats is not None:
        found = summarise_stats(parts.stats, app.clock, seconds, "queue", "handler", queues=only)
        by_queue, by_handler = tuple(found[0]), tuple(found[1])
    return Health(
        backend=without_secrets(app.settings.url),
        schema=None if backend.schema is None else SchemaVersions(*backend.schema.version()),
        facts=(*([] if backend.server is None else backend.server.facts()), *_outage_facts(app)),
        queues=counts,
        signals=None if counts is None else tuple(each for each in app.signals() if each.queue in counts),
        rates=tuple(_rates(app, only)),
        last=last,
        by_queue=by_queue,
        by_handler=by_handler,
    )


def _rates(app: Tenure, only: Sequence[str]) -> list[RateUsage]:
    limited = [queue for queue in app.settings.rates if not only or queue in only]
    usages = [(queue, app.guards.queue(queue).usage()) for queue in limited]
    return [
        RateUsage(queue=queue, rate=app.settings.rates[queue], used=usage.used, burst=usage.burst, again=usage.again)
        for queue, usage in usages
    ]


def _outage_facts(app: Tenure) -> list[Fact]:
    """How workers react when the server does not answer."""
    if app.backend.in_process or app.backend.file is not None:
        return []
    try:
        breaker = app.guards.around_backend()
    except SettingsError as error:
        return [Fact("store", str(error), warning=True)]
    if breaker is None:
        return [Fact("outages", "each worker has its own breaker around the backend, because guards live in it too")]
    state = breaker.state()
    text = f"all workers share a breaker around the backend, in the store; it is {state.replace('_', '-')}"
    return [Fact("outages", text, warning=state != "closed")]
