"""The overview: jobs by state, what needs attention, how fast and how well jobs run, busy queues and handlers."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.attention import Attention, needs_attention
from tenure.app.dashboard.background import FIRST_WAIT_SECONDS
from tenure.app.dashboard.checks import last_examination
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.figures import QueueFigures
from tenure.app.dashboard.queues import QueueRow, queue_rows, seen_queues
from tenure.app.dashboard.series import (
    SHARED_SECONDS,
    WINDOW_SECONDS,
    Chart,
    SlotSeries,
    Window,
    WorkSum,
    sampled_chart,
    slots_of,
)
from tenure.clock import MICROSECOND
from tenure.events import LIVE_STATES
from tenure.metrics.statistics import Percentiles, percentiles

ENDED_HOURS = 24  # for the states of ended jobs
_ENDED_FRESH_SECONDS = 15.0
_MAX_ENDED = 10_000  # of each queue and state that are counted
_SHOWN_ROWS = 8
_SHARES = (0.5, 0.95, 0.99)  # the percentiles of run times


class StateCount(Struct, frozen=True, kw_only=True):
    """How many jobs are in a state, or ended in it within `hours`; None if it is not known.

    With `or_more`, counting stopped there.
    """

    state: str
    count: int | None
    hours: int | None = None
    or_more: bool = False


class ThroughputFigure(Struct, frozen=True, kw_only=True):
    """The jobs done in the window, and how many that is a second."""

    done: int
    per_second: float
    chart: Chart


class Failures(Struct, frozen=True, kw_only=True):
    """The attempts of the window that failed; `share` is None without attempts. The chart is in percent."""

    failed: int
    attempts: int
    share: float | None
    chart: Chart


class RunTimes(Struct, frozen=True, kw_only=True):
    """How long the attempts of the window ran, in seconds."""

    seconds: Percentiles
    chart: Chart


class Oldest(Struct, frozen=True, kw_only=True):
    """How long the oldest job that could start has waited, and in which queue; None if none waits."""

    seconds: float | None
    queue: str | None
    chart: Chart


class HandlerRow(Struct, frozen=True, kw_only=True):
    """A handler in the window: its attempts, the share of them that failed, and the jobs that died."""

    name: str
    attempts: int
    failed: int
    p95: float | None
    died: int

    @property
    def share(self) -> float | None:
        return self.failed / self.attempts if self.attempts else None


class _Work(Struct, frozen=True, kw_only=True):
    """What the statistics of a window say."""

    throughput: ThroughputFigure
    failures: Failures
    run_times: RunTimes
    handlers: tuple[HandlerRow, ...]


class Overview(Struct, frozen=True, kw_only=True):
    """`queues` and `handlers` are the busiest ones; `queue_count` and `handler_count` are all.

    `checks` counts the findings of the doctor by verdict. Without `is_read`, the statistics are still being read.
    `is_new`: no job was ever enqueued, and no worker is alive.
    """

    at: datetime
    window: Window
    states: tuple[StateCount, ...]
    attention: tuple[Attention, ...]
    throughput: ThroughputFigure
    failures: Failures
    run_times: RunTimes
    oldest: Oldest
    queues: tuple[QueueRow, ...]
    queue_count: int
    handlers: tuple[HandlerRow, ...]
    handler_count: int
    checks: dict[str, int] | None = None
    counts_known: bool = True
    has_statistics: bool = True
    is_read: bool = True
    is_new: bool = False


class OverviewQuery(Struct, frozen=True, kw_only=True):
    page: ClassVar[str] = "overview"
    window: Window = "1h"

    def read(self, sources: Sources, access: Access) -> Overview:
        figures, seen = sources.figures, seen_queues(sources, access)
        slots = slots_of(sources, self.window, access.queues)
        work = sources.shared(
            f"work {self.window} {access.queues}",
            SHARED_SECONDS[self.window] if slots.is_read else 0.0,
            lambda: _work(slots, WINDOW_SECONDS[self.window]),
        )
        busiest = sorted(seen, key=lambda each: (-each.ready - each.leased, each.name))
        states = _states(sources, access, seen)
        return Overview(
            at=figures.at,
            window=self.window,
            states=states,
            attention=needs_attention(sources, access, seen),
            throughput=work.throughput,
            failures=work.failures,
            run_times=work.run_times,
            oldest=_oldest(sources, self.window, seen),
            queues=queue_rows(sources, busiest[:_SHOWN_ROWS], slots),
            queue_count=len(seen),
            handlers=work.handlers[:_SHOWN_ROWS],
            handler_count=len(work.handlers),
            checks=_checks(sources, access),
            counts_known=figures.counts_known,
            has_statistics=sources.parts.stats is not None,
            is_read=slots.is_read,
            is_new=figures.counts_known and not figures.workers and not any(each.count for each in states),
        )


def _checks(sources: Sources, access: Access) -> dict[str, int] | None:
    found = last_examination(sources) if access.may_read("doctor") else None
    return None if found is None else {verdict: found.count(verdict) for verdict in ("problem", "warning", "ok")}


def _states(sources: Sources, access: Access, queues: Sequence[QueueFigures]) -> tuple[StateCount, ...]:
    known = sources.figures.counts_known
    done = None
    if sources.parts.stats is not None:
        day = slots_of(sources, "24h", access.queues)
        done = sum(tally.counts.statuses.get("acked", 0) for tally in day.tallies)
    ended = _ended(sources, access)
    live = {state: sum(getattr(each, state) for each in queues) if known else None for state in (*LIVE_STATES, "dead")}
    return (
        *(StateCount(state=state, count=live[state]) for state in LIVE_STATES),
        StateCount(state="done", count=done, hours=ENDED_HOURS),
        StateCount(state="dead", count=live["dead"]),
        *(ended[state] for state in ("cancelled", "expired")),
    )


def _ended(sources: Sources, access: Access) -> dict[str, StateCount]:
    """The jobs that ended as cancelled or expired; read in the background, because there may be many queues."""
    states = ("cancelled", "expired")
    counted = sources.background.get(
        "the counts of ended jobs", lambda: _count_ended(sources, states), _ENDED_FRESH_SECONDS, FIRST_WAIT_SECONDS
    ).value
    found = {}
    for state in states:
        counts = None if counted is None else [each for queue, each in counted[state].items() if access.sees(queue)]
        found[state] = StateCount(
            state=state,
            count=None if counts is None else sum(counts),
            hours=ENDED_HOURS,
            or_more=counts is not None and max(counts, default=0) >= _MAX_ENDED,
        )
    return found


def _count_ended(sources: Sources, states: Sequence[str]) -> dict[str, dict[str, int]] | None:
    counter, jobs = sources.parts.queues, sources.parts.jobs
    if counter is None or jobs is None:
        return None
    since = sources.app.clock.now() - ENDED_HOURS * 3600 * MICROSECOND
    return {
        state: {queue: counter.ended_since(state, queue, since, _MAX_ENDED) for queue in jobs.queues_with(state)}
        for state in states
    }


def _work(slots: SlotSeries, window_seconds: float) -> _Work:
    by_slot = {start: WorkSum() for start in slots.starts}
    by_handler: dict[str, WorkSum] = {}
    for tally in slots.tallies:
        by_slot[tally.slot].add(tally.counts)
        by_handler.setdefault(tally.handler, WorkSum()).add(tally.counts)
    whole = WorkSum()
    for each in by_handler.values():
        whole.join(each)
    sums = list(by_slot.values())
    return _Work(
        throughput=ThroughputFigure(
            done=whole.done,
            per_second=whole.done / window_seconds,
            chart=slots.chart(("done", slots.rates([each.done for each in sums]))),
        ),
        failures=Failures(
            failed=whole.failed,
            attempts=whole.attempts,
            share=whole.failed_share,
            chart=slots.chart(("failed attempts", [_percent(each.failed_share) for each in sums])),
        ),
        run_times=RunTimes(
            seconds=percentiles(whole.durations),
            chart=slots.chart(*((f"p{share * 100:.0f}", [each.durations.percentile(share) for each in sums])
                                for share in _SHARES)),
        ),
        handlers=tuple(sorted(
            (_handler_row(name, each) for name, each in by_handler.items() if name),
            key=lambda row: (-row.attempts, row.name),
        )),
    )  # fmt: skip


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _handler_row(name: str, found: WorkSum) -> HandlerRow:
    return HandlerRow(
        name=name,
        attempts=found.attempts,
        failed=found.failed,
        p95=found.durations.percentile(0.95),
        died=found.died,
    )


def _oldest(sources: Sources, window: Window, queues: Sequence[QueueFigures]) -> Oldest:
    waiting = [each for each in queues if each.oldest_age]
    first = max(waiting, key=lambda each: each.oldest_age or 0.0, default=None)
    names = {each.name for each in queues}
    chart = sampled_chart(
        sources, window, lambda _, oldest: {name: age for name, age in oldest.items() if name in names}
    )
    return Oldest(
        seconds=None if first is None else first.oldest_age, queue=None if first is None else first.name, chart=chart
    )
