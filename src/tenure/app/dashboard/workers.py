"""The workers page: lanes, running jobs, memory and heartbeats of the workers that are alive; drain one, resume it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.dashboard.figures import Figures
from tenure.backends.records import LaneRecord, RunningJob, WorkerRecord
from tenure.clock import to_datetime, to_microseconds
from tenure.errors import AccessDenied, ActionRefused

SILENT_SECONDS = 15.0  # three heartbeats
FULL_SHARE = 0.85  # of the memory limit
_SHOWN_RUNS = 3


class LaneCard(Struct, frozen=True, kw_only=True):
    """A lane: `used` of its `places` run a job; `waiting` more jobs wait in the worker for a place."""

    name: str
    queues: tuple[str, ...]
    runner: str
    places: int
    used: int
    waiting: int = 0


class RunCard(Struct, frozen=True, kw_only=True):
    """A running job, and for how many seconds it runs."""

    id: str
    handler: str
    name: str | None
    queue: str
    seconds: float


class WorkerCard(Struct, frozen=True, kw_only=True):
    """One worker; its largest process uses `peak` bytes of `limit`, which is None without a limit.

    `runs` are the longest ones, `more_runs` how many are not shown. `memory` is None if it is not known.
    """

    id: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    beat_age: float
    lanes: tuple[LaneCard, ...]
    per_second: float
    runs: tuple[RunCard, ...] = ()
    more_runs: int = 0
    memory: int | None = None
    peak: int | None = None
    limit: int | None = None
    draining_since: datetime | None = None
    draining_reason: str | None = None

    @property
    def is_silent(self) -> bool:
        return self.beat_age > SILENT_SECONDS

    @property
    def is_full(self) -> bool:
        return bool(self.limit and self.peak and self.peak > FULL_SHARE * self.limit)


class WorkersPage(Struct, frozen=True, kw_only=True):
    """The workers that serve queues which the user sees; None if the backend has no registry of workers."""

    at: datetime
    workers: tuple[WorkerCard, ...] | None
    places: int = 0
    used: int = 0
    per_second: float = 0.0
    draining: int = 0
    silent: int = 0
    memory: int | None = None
    oldest_beat: WorkerCard | None = None
    longest_run: RunCard | None = None
    may_drain: bool = False
    may_resume: bool = False


class WorkersQuery(Struct, frozen=True, kw_only=True):
    page: ClassVar[str] = "workers"

    def read(self, sources: Sources, access: Access) -> WorkersPage:
        figures = sources.figures
        if figures.workers is None:
            return WorkersPage(at=figures.at, workers=None)
        cards = tuple(_card(worker, access, sources.now) for worker in seen_workers(figures, access))
        lanes = [lane for card in cards for lane in card.lanes]
        runs = [run for card in cards for run in card.runs]
        memory = [card.memory for card in cards if card.memory is not None]
        return WorkersPage(
            at=figures.at,
            workers=cards,
            places=sum(lane.places for lane in lanes),
            used=sum(lane.used for lane in lanes),
            per_second=sum(card.per_second for card in cards),
            draining=sum(card.draining_since is not None for card in cards),
            silent=sum(card.is_silent for card in cards),
            memory=sum(memory) if memory else None,
            oldest_beat=max(cards, key=lambda card: card.beat_age, default=None),
            longest_run=max(runs, key=lambda run: run.seconds, default=None),
            may_drain=access.may("worker.drain"),
            may_resume=access.may("worker.resume"),
        )


def seen_workers(figures: Figures, access: Access) -> list[WorkerRecord]:
    """The workers that serve a queue which the user sees."""
    return [worker for worker in figures.workers or () if any(map(access.sees, worker.queues))]


def beat_age(worker: WorkerRecord, now: datetime) -> float:
    """Seconds since the last heartbeat."""
    return max(0.0, (now - to_datetime(worker.seen_at)).total_seconds())


def _card(worker: WorkerRecord, access: Access, now: datetime) -> WorkerCard:
    running = [run for run in worker.running if access.sees(run.queue)]
    lanes = tuple(_lane(lane, worker, access) for lane in worker.lanes if any(map(access.sees, lane.queues)))
    known = running if access.queues is not None else worker.jobs  # the ids of jobs do not tell their queues
    return WorkerCard(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        started_at=to_datetime(worker.started_at),
        seen_at=to_datetime(worker.seen_at),
        beat_age=beat_age(worker, now),
        lanes=lanes,
        per_second=sum(rate for queue, rate in worker.rates.items() if access.sees(queue)),
        runs=tuple(_run(run, now) for run in running[:_SHOWN_RUNS]),
        more_runs=max(0, len(known) - len(running[:_SHOWN_RUNS])),
        memory=worker.memory or None,
        peak=worker.peak_child or None,
        limit=worker.max_memory or None,
        draining_since=to_datetime(worker.draining_since) if worker.draining_since else None,
        draining_reason=worker.draining_reason,
    )


def _lane(lane: LaneRecord, worker: WorkerRecord, access: Access) -> LaneCard:
    held = lane.held or (len(worker.jobs) if len(worker.lanes) == 1 else 0)  # older workers do not tell it by lane
    return LaneCard(
        name=lane.name,
        queues=tuple(filter(access.sees, lane.queues)),
        runner=lane.runner,
        places=lane.concurrency,
        used=min(held, lane.concurrency),
        waiting=max(0, held - lane.concurrency),
    )


def _run(run: RunningJob, now: datetime) -> RunCard:
    seconds = max(0.0, (to_microseconds(now) - run.started_at) / 1e6)
    return RunCard(id=run.id, handler=run.handler, name=run.name, queue=run.queue, seconds=seconds)


class DrainWorker(Struct, frozen=True, kw_only=True):
    """Stop one worker from leasing jobs; its running jobs go on, and its process stays."""

    action: ClassVar[str] = "worker.drain"
    worker: str
    reason: str | None = None  # else why the user did it

    def target(self) -> str:
        return self.worker

    def check(self, sources: Sources, access: Access) -> None:
        _find(sources, access, self.worker)

    def preview(self, sources: Sources, access: Access) -> Preview:
        worker = _find(sources, access, self.worker)
        others = {
            queue
            for each in sources.figures.workers or ()
            if each.id != worker.id and not each.draining_since
            for queue in each.queues
        }
        alone = sorted(set(worker.queues) - others)
        note = f"No other worker serves {', '.join(alone)}: their jobs wait until this one is resumed."
        return Preview(
            question=f"Drain worker {worker.host}, pid {worker.pid}?",
            verb="Drain",
            effects=(Effect("go on, and no other job starts there", "leased", len(worker.jobs)),),
            notes=(note,) if alone else (),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield {"draining": int(sources.app.guards.drain_worker(self.worker, self.reason))}
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        if not counts.get("draining"):
            return f"{self.worker} was draining before; its first reason stays."
        return f"{self.worker} is draining: its running jobs go on, and no other starts there."

    def undo(self) -> "ResumeWorker":
        return ResumeWorker(worker=self.worker)


class ResumeWorker(Struct, frozen=True, kw_only=True):
    """Let a draining worker lease jobs again."""

    action: ClassVar[str] = "worker.resume"
    worker: str

    def target(self) -> str:
        return self.worker

    def check(self, sources: Sources, access: Access) -> None:
        _find(sources, access, self.worker)

    def preview(self, sources: Sources, access: Access) -> Preview:
        worker = _find(sources, access, self.worker)
        return Preview(
            question=f"Resume worker {worker.host}, pid {worker.pid}?",
            verb="Resume",
            effects=(Effect(f"of {', '.join(worker.queues)} may start there again", "ready"),),
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield {"resumed": int(sources.app.guards.resume_worker(self.worker))}
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        return f"{self.worker} is resumed." if counts.get("resumed") else f"{self.worker} was not draining."

    def undo(self) -> DrainWorker:
        return DrainWorker(worker=self.worker)


def _find(sources: Sources, access: Access, id: str) -> WorkerRecord:
    """A worker that is alive, and all of whose queues the user sees."""
    found = next((each for each in sources.figures.workers or () if each.id == id), None)
    if found is None:
        found = next((each for each in sources.recorder.read_now().workers or () if each.id == id), None)
    if found is None or not any(map(access.sees, found.queues)):
        raise ActionRefused(f"no worker {id!r} is alive: it may have stopped meanwhile")
    if hidden := [queue for queue in found.queues if not access.sees(queue)]:
        raise AccessDenied(
            f"user {access.user!r} may not change worker {id!r}: it also serves {len(hidden)} queues that the user "
            "does not see"
        )
    return found
