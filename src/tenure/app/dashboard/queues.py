"""The queues page: what waits, runs and is dead in each queue, how fast it moves; pause, resume and drain."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.dashboard.figures import QueueFigures
from tenure.app.dashboard.series import (
    SHARED_SECONDS,
    Chart,
    SlotSeries,
    Window,
    WorkSum,
    queue_rates,
    sampled_chart,
    slots_of,
)
from tenure.errors import ActionRefused

_ALL = "all queues"
_MAX_WAIT_LINES = 2


class QueueRow(Struct, frozen=True, kw_only=True):
    """One queue; `limit` is its rate limit in words, `done` the jobs done per second in each slot of the window."""

    figures: QueueFigures
    limit: str | None = None
    done: tuple[float, ...] = ()

    @property
    def is_draining(self) -> bool:
        return self.figures.paused_since is not None and self.figures.leased > 0

    @property
    def empty_in(self) -> float | None:
        """Seconds until no job is ready; None if the queue is held, or if nothing goes out."""
        is_held = self.figures.paused_since is not None or self.figures.breakers
        return None if is_held or not self.figures.ready else self.figures.seconds_to_drain


class QueueTotals(Struct, frozen=True, kw_only=True):
    """All queues that the user sees; rates are None if none of them is known."""

    ready: int = 0
    delayed: int = 0
    parked: int = 0
    leased: int = 0
    dead: int = 0
    oldest_age: float | None = None
    arrival_rate: float | None = None
    service_rate: float | None = None


class QueuesPage(Struct, frozen=True, kw_only=True):
    """All queues that the user sees, the chart of their ready jobs, and of the wait before the first attempt.

    The wait is the 95th percentile, of the queues where it is longest. `fullest` is the queue with the most ready jobs.
    """

    at: datetime
    window: Window
    queues: tuple[QueueRow, ...]
    totals: QueueTotals = QueueTotals()
    ready: Chart = Chart()
    waits: Chart = Chart()
    fullest: str | None = None
    counts_known: bool = True
    may_pause: bool = False
    may_resume: bool = False
    may_drain: bool = False


class QueuesQuery(Struct, frozen=True, kw_only=True):
    page: ClassVar[str] = "queues"
    window: Window = "1h"

    def read(self, sources: Sources, access: Access) -> QueuesPage:
        figures = sources.figures
        seen = seen_queues(sources, access)
        return QueuesPage(
            at=figures.at,
            window=self.window,
            queues=queue_rows(sources, seen, slots_of(sources, self.window)),
            totals=_totals(seen),
            ready=_ready_chart(sources, self.window, seen),
            waits=_wait_chart(sources, self.window, access),
            fullest=max(seen, key=lambda each: each.ready).name if any(each.ready for each in seen) else None,
            counts_known=figures.counts_known,
            may_pause=access.may("queue.pause"),
            may_resume=access.may("queue.resume"),
            may_drain=access.may("queue.drain"),
        )


def seen_queues(sources: Sources, access: Access) -> list[QueueFigures]:
    """The figures of the queues that the user sees."""
    return [each for each in sources.figures.queues if access.sees(each.name)]


def queue_rows(sources: Sources, queues: Iterable[QueueFigures], slots: SlotSeries) -> tuple[QueueRow, ...]:
    """The rows of these queues, with what was done in the slots."""
    rates, limits = queue_rates(slots), sources.app.settings.rates
    nothing = (0.0,) * len(slots.starts)
    return tuple(
        QueueRow(figures=each, limit=_words(limits.get(each.name)), done=rates.get(each.name, nothing))
        for each in queues
    )


def _words(rate: str | int | None) -> str | None:
    return None if rate is None else f"at most {rate}/min" if isinstance(rate, int) else f"at most {rate}"


def _totals(queues: Sequence[QueueFigures]) -> QueueTotals:
    return QueueTotals(
        ready=sum(each.ready for each in queues),
        delayed=sum(each.delayed for each in queues),
        parked=sum(each.parked for each in queues),
        leased=sum(each.leased for each in queues),
        dead=sum(each.dead for each in queues),
        oldest_age=max((each.oldest_age for each in queues if each.oldest_age is not None), default=None),
        arrival_rate=_sum(each.arrival_rate for each in queues),
        service_rate=_sum(each.service_rate for each in queues),
    )


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _ready_chart(sources: Sources, window: Window, queues: Sequence[QueueFigures]) -> Chart:
    names = {each.name for each in queues}
    return sampled_chart(
        sources, window, lambda ready, _: {_ALL: float(sum(ready[name] for name in ready if name in names))}
    )


def _wait_chart(sources: Sources, window: Window, access: Access) -> Chart:
    slots = slots_of(sources, window, access.queues)
    seconds = SHARED_SECONDS[window] if slots.is_read else 0.0
    return sources.shared(f"waits {window} {access.queues}", seconds, lambda: _read_waits(slots))


def _read_waits(slots: SlotSeries) -> Chart:
    waits: dict[str, WorkSum] = {}
    for tally in slots.tallies:
        waits.setdefault(tally.queue, WorkSum()).add_durations(tally.counts.waits)
    p95 = {queue: each.durations.percentile(0.95) for queue, each in waits.items()}
    longest = sorted((queue for queue in p95 if p95[queue] is not None), key=lambda queue: -(p95[queue] or 0.0))
    lines = {queue: {start: WorkSum() for start in slots.starts} for queue in longest[:_MAX_WAIT_LINES]}
    for tally in slots.tallies:
        if tally.queue in lines:
            lines[tally.queue][tally.slot].add_durations(tally.counts.waits)
    return slots.chart(
        *((queue, [each.durations.percentile(0.95) for each in sums.values()]) for queue, sums in lines.items())
    )


class PauseQueue(Struct, frozen=True, kw_only=True):
    """Stop workers from leasing jobs of a queue; running jobs go on."""

    action: ClassVar[str] = "queue.pause"
    queue: str
    reason: str | None = None  # else why the user did it

    def target(self) -> str:
        return self.queue

    def check(self, sources: Sources, access: Access) -> None:
        _check_queue(sources, access, self.queue)

    def preview(self, sources: Sources, access: Access) -> Preview:
        found = sources.figures.queue(self.queue)
        return Preview(
            question=f"Pause queue {self.queue}?",
            verb="Pause",
            effects=(
                Effect("wait until the queue is resumed", "ready", found.ready if found else None),
                Effect("go on", "leased", found.leased if found else None),
            ),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield {"paused": int(sources.app.guards.pause(self.queue, self.reason))}
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        if not counts.get("paused"):
            return f"{self.queue} was paused before; its first reason stays."
        return f"{self.queue} is paused: no job starts, and running ones go on."

    def undo(self) -> "ResumeQueue":
        return ResumeQueue(queue=self.queue)


class DrainQueue(Struct, frozen=True, kw_only=True):
    """Pause a queue and let its running jobs end: the page shows how many still run."""

    action: ClassVar[str] = "queue.drain"
    queue: str
    reason: str | None = None  # else why the user did it

    def target(self) -> str:
        return self.queue

    def check(self, sources: Sources, access: Access) -> None:
        _check_queue(sources, access, self.queue)

    def preview(self, sources: Sources, access: Access) -> Preview:
        found = sources.figures.queue(self.queue)
        effects = (
            Effect("end, and no other job starts", "leased", found.leased if found else None),
            Effect("wait until the queue is resumed", "ready", found.ready if found else None),
        )
        return Preview(question=f"Drain queue {self.queue}?", verb="Drain", effects=effects)

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield {"paused": int(sources.app.guards.pause(self.queue, self.reason or "draining"))}
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        return f"{self.queue} is draining: its running jobs end, and no other starts."

    def undo(self) -> "ResumeQueue":
        return ResumeQueue(queue=self.queue)


class ResumeQueue(Struct, frozen=True, kw_only=True):
    """Let workers lease jobs of a queue again."""

    action: ClassVar[str] = "queue.resume"
    queue: str

    def target(self) -> str:
        return self.queue

    def check(self, sources: Sources, access: Access) -> None:
        _check_queue(sources, access, self.queue)

    def preview(self, sources: Sources, access: Access) -> Preview:
        found = sources.figures.queue(self.queue)
        effects = (Effect("may start", "ready", found.ready if found else None),)
        return Preview(question=f"Resume queue {self.queue}?", verb="Resume", effects=effects)

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield {"resumed": int(sources.app.guards.resume(self.queue))}
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        if not counts.get("resumed"):
            return f"{self.queue} was not paused."
        return f"{self.queue} is resumed: its ready jobs may start."

    def undo(self) -> PauseQueue:
        return PauseQueue(queue=self.queue)


def _check_queue(sources: Sources, access: Access, queue: str) -> None:
    """A queue that the user sees and that exists: has jobs or workers, or is in the settings."""
    access.check_queue(queue)
    known = [each.name for each in sources.figures.queues]
    if queue not in known and queue not in {each.name for each in sources.recorder.read_now().queues}:
        raise ActionRefused(f"no queue {queue!r} is known; known are {', '.join(known) or 'none'}")
