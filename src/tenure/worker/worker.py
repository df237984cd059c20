"""Worker: wires the roles, starts their threads, serves in the calling thread, and stops them without losing a job.

A job passes through three threads, of which the first two exist once per lane. The first lane runs in the thread that
calls `run`, because only the main thread can interrupt an inline job:

| thread | does | file |
| --- | --- | --- |
| `tenure-leaser` | leases jobs into the inbox of its lane | `leaser.py`, `inbox.py` |
| the caller of `run`; `tenure-laneruntime` | opens leases, runs jobs, decides | `pipeline.py` |
| `tenure-settler` | settles verdicts in batches | `settler.py` |

Beside them run, once per worker:

| thread | does | file |
| --- | --- | --- |
| `tenure-keeper` | renews leases, hands back unstarted jobs | `keeper.py` |
| `tenure-guardkeeper` | renews guards, wakes jobs that wait for them | `keeper.py` |
| `tenure-reaper` | reaps expired leases | `keeper.py` |
| `tenure-lease-watchdog` | gives up leases while the backend does not answer | `keeper.py` |
| `tenure-suspectrunner` | has suspects run in a process of their own | `suspects.py` |
| `tenure-cancelwatcher` | stops cancelled jobs, writes progress, if the backend supports both | `cancel_watcher.py` |
| `tenure-heartbeat` | registers the worker | `heartbeat.py` |
| `tenure-statsrecorder` | writes statistics | `stats_recorder.py` |
| `tenure-archivewriter` | writes job records, beside a broker that forgets its jobs | `archive_writer.py` |
| `tenure-janitor` | deletes old records | `janitor.py` |
| `tenure-queuehooks`, and `tenure-hook` per call | calls `setup` and `refresh` of queue classes | `queue_hooks.py` |

The app adds roles with `companions` and `add_role`: the tick recorder, and the scheduler of `tenure work --with-cron`.
A role that fails stops the worker, and `run` raises its error.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from tenure.backends.contract import Backend
from tenure.backends.messages import ON_REQUEST, Ack, Lease, Nack
from tenure.definition.context import Progress
from tenure.events import Listeners, Status, WorkerStarted, WorkerStopped
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome
from tenure.execution.runner import Runner
from tenure.worker.archive_writer import ArchiveWriter
from tenure.worker.cancel_watcher import CancelWatcher
from tenure.worker.inbox import GUARDED_BATCH, HeldLeases, Inbox
from tenure.worker.keeper import GuardKeeper, Keeper, Reaper
from tenure.worker.lane import Lane, WorkerOptions
from tenure.worker.leaser import Leaser, RunLimits, SharedParts
from tenure.worker.logs import ExecutionLog
from tenure.worker.pipeline import UNSTARTED, Pipeline
from tenure.worker.roles import Role, RoleThread
from tenure.worker.settler import Settler
from tenure.worker.stop_signals import StopSignals
from tenure.worker.suspects import StartProcess, SuspectRunner

_COMPANION_STOP_TIMEOUT = 5.0  # a queue hook of the user that hangs must not block the end of the worker

# Seconds. Each statement releases the interpreter lock and needs it again while other threads wait for the database:
# taking it back within this time instead of the interpreter's 5 ms drains 7 % faster on SQLite. The threads interrupt
# each other more often for it: where a call waits rarely, 5 ms take 6 % less CPU.
_SWITCH_INTERVAL = 0.001


class Worker:
    """Lanes, each with its runner; `run` returns when the worker is stopped, or has reached its limits.

    Each lane leases and runs by itself; one settler, one keeper and one of each further role serve them all.
    """

    def __init__(
        self,
        backend: Backend,
        lanes: Sequence[tuple[Lane, Runner]],
        options: WorkerOptions,
        pipeline: Pipeline,
        listeners: Listeners,
        name: str,
        companions: Sequence[Role] = (),
    ) -> None:
        """The first lane is served in the thread that calls `run`, each other lane in its own thread.

        `companions` are roles that run as long as the worker; jobs do not depend on them.
        """
        pipeline.worker = pipeline.guards.worker = name
        self._options = options
        self._listeners = listeners
        self.name = name
        self.ready = threading.Event()
        self._answered: list[None] = []
        self._error: BaseException | None = None
        self._keeper_ticked: float | None = None
        self._execution_log: ExecutionLog | None = None
        self._switch_interval = sys.getswitchinterval() if backend.waits_rarely else _SWITCH_INTERVAL
        self._held = held = HeldLeases()
        max_delay = min(5.0, options.lease_seconds / 3)
        self._settler = settler = Settler(
            backend, held, listeners, pipeline.guards, name, max_delay=max_delay, bury=pipeline.bury
        )
        self._suspects = SuspectRunner(
            backend,
            [lane for lane, _ in lanes],
            pipeline.guards.room,
            options.lease_seconds / 3,
            pipeline.guards.outage,
        )
        # A worker that runs suspects, or a given number of jobs, does not look for the suspects of others.
        looks_for_suspects = not options.only_suspects and options.max_jobs is None
        suspects_wait = self._suspects.have_work if looks_for_suspects else None
        self._limits = RunLimits(options, len(lanes), held, settler.tally, suspects_wait)
        breaker = pipeline.guards.backend_breaker()
        shared = SharedParts(
            backend, options, pipeline, held, settler, self._limits, listeners, breaker, self._suspects
        )
        self._lanes = [LaneRuntime(lane, runner, shared, self._on_answer) for lane, runner in lanes]
        self._leasers = [RoleThread(lane.leaser, self._fail, on_end=lane.close) for lane in self._lanes]
        self._further_lanes = [RoleThread(lane, self._fail) for lane in self._lanes[1:]]
        self._settler_thread = RoleThread(settler, self._fail)
        self._suspects_thread = RoleThread(self._suspects, self._fail) if looks_for_suspects else None
        self._suspects_grace = 0.0
        keeper = Keeper(backend, options, held, listeners, pipeline, self._hand_back, self._lose)
        guard_keeper = GuardKeeper(pipeline, held, options, keeper.give_up)
        outage = pipeline.guards.outage
        reaper = Reaper(backend, options, listeners, pipeline.clock, outage)
        roles: list[Role] = [keeper, guard_keeper, reaper, *companions]
        if backend.control is not None:
            roles.append(CancelWatcher(backend.control, held, self._cancel, self._progress, outage))
        self._other_roles = [RoleThread(role, self._fail) for role in roles]

    def add_role(self, role: Role) -> None:
        """Run another role as long as this worker; call it before `run`."""
        self._other_roles.append(RoleThread(role, self._fail))

    def run_suspects_in_processes(self, start: StartProcess, grace: float) -> None:
        """Run suspects in processes that `start` starts, not between the jobs of this worker; call it before `run`.

        A stop of this worker waits at most `grace` seconds for such a process.
        """
        self._suspects.start, self._suspects_grace = start, grace

    def set_archive_writer(self, writer: ArchiveWriter) -> None:
        """Write a record of every settled job, where the backend forgets them; call it before `run`."""
        self._settler.archive_writer = writer
        self.add_role(writer)

    def set_execution_log(self, log: ExecutionLog) -> None:
        """Write every verdict to this log; call it before `run`, which closes the log."""
        self._settler.recorder = self._execution_log = log

    @property
    def is_running(self) -> bool:
        """Whether `run` was called and has not returned."""
        return self._settler_thread.is_alive

    @property
    def tally(self) -> Counter[Status]:
        """How often each status occurred so far."""
        return self._settler.tally

    @property
    def suspects_failed(self) -> bool:
        """Whether jobs died in a process that ran suspects, or that process failed."""
        return self._suspects.failed

    def silence(self) -> float:
        """Seconds since the slowest of its loops last came round; a running job does not count."""
        now = time.monotonic()
        ticks = (self._settler.ticked, self._keeper_ticked, *(tick for lane in self._lanes for tick in lane.ticks()))
        return max((now - tick for tick in ticks if tick is not None), default=0.0)

    def jobs(self, limit: int = 20) -> tuple[str, ...]:
        """The ids of the jobs it holds, those it has held longest first."""
        return self._held.ids(limit)

    def held(self) -> Counter[str]:
        """How many jobs of each queue it holds."""
        return self._held.by_queue()

    @property
    def slots(self) -> int:
        """How many jobs it can run at a time."""
        return sum(lane.lane.concurrency for lane in self._lanes)

    def running(self) -> list[tuple[Lane, Attempt, float]]:
        """The attempts that run, each with its lane and its start by the monotonic clock."""
        return [(lane.lane, attempt, start) for lane in self._lanes for attempt, start in lane.runner.running()]

    def child_pids(self) -> list[int]:
        """The child processes that run its jobs."""
        return [pid for lane in self._lanes for pid in lane.runner.child_pids()]

    def run(self, *, signals: bool = False) -> Counter[Status]:
        """Work until stopped or done; returns the tally, or raises the error of a role that failed.

        With `signals`, SIGTERM and SIGINT stop it, and a second one interrupts the running jobs: main thread only.
        """
        with StopSignals(self) if signals else nullcontext():
            return self._run()

    def _run(self) -> Counter[Status]:
        self._listeners.emit(WorkerStarted(self.name, self._options.queues))
        interval_before = sys.getswitchinterval()
        sys.setswitchinterval(self._switch_interval)
        for thread in (self._settler_thread, *self._other_roles, *self._leasers, *self._further_lanes):
            thread.start()
        if self._suspects_thread is not None:
            self._suspects_thread.start()
        try:
            self._lanes[0].run()
        finally:
            self.stop()  # the lane may have ended by itself: an inline runner does when it has used up its process
            # In the order that loses nothing: leasers, runners, settler, and the keeper, which renews until then.
            for thread in (*self._leasers, *self._further_lanes, self._settler_thread):
                thread.stop()
            if self._suspects_thread is not None:
                self._suspects_thread.stop(self._suspects_grace + _COMPANION_STOP_TIMEOUT)
            for thread in self._other_roles:
                thread.stop(_COMPANION_STOP_TIMEOUT)
            sys.setswitchinterval(interval_before)
            if self._execution_log is not None:
                self._execution_log.close()
            self._listeners.emit(WorkerStopped(self.name))
        if self._error is not None:
            raise self._error
        return self.tally

    def stop(self) -> None:
        """Finish what is running, hand back the rest, settle, and return from `run`; safe in a signal handler."""
        for lane in self._lanes:
            lane.stop()
        self._suspects.stop()

    def stop_now(self) -> None:
        """As `stop`, but what is running is interrupted and handed back, at no cost to the job."""
        self.stop()
        self._suspects.stop_now()
        for lane in reversed(self._lanes):  # the first lane comes last: it may raise into the job that runs here
            lane.interrupt()

    def drain(self) -> None:
        """Finish everything that is ready, then return from `run`; safe in a signal handler."""
        self._limits.drain()

    def reload(self) -> bool:
        """Replace child processes by fresh ones, which import the current code; False if jobs run in this process."""
        return all(lane.reload() for lane in self._lanes)  # the inline lane is the first

    def _on_answer(self) -> None:
        self._answered.append(None)
        if len(self._answered) == len(self._lanes):
            self.ready.set()

    def _hand_back(self, age: float) -> None:
        self._keeper_ticked = time.monotonic()
        for lane in self._lanes:
            lane.hand_back(age)

    def _lose(self, leases: Sequence[Lease]) -> None:
        for lane in self._lanes:
            lane.lose(leases)

    def _cancel(self, leases: Sequence[Lease]) -> None:
        for lane in self._lanes:
            lane.cancel(leases)

    def _progress(self) -> list[tuple[Lease, Progress]]:
        return [item for lane in self._lanes for item in lane.progress()]

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop()


class LaneRuntime:
    """A lane at work: its leaser fills the inbox, its runner empties it, and the settler gets the verdicts.

    `run` serves in the calling thread until the lane is closed and empty.
    """

    def __init__(self, lane: Lane, runner: Runner, shared: SharedParts, on_answer: Callable[[], None]) -> None:
        """`on_answer` is called once, when the backend has answered the first lease of this lane."""
        self._queues = frozenset(lane.queues)
        self.lane = lane
        self.runner = runner
        self._pipeline = shared.pipeline
        self._settler = shared.settler
        clock, held, seconds = shared.pipeline.clock, shared.held, shared.options.lease_seconds
        self._inbox = Inbox(
            runner.concurrency,
            on_idle=self._on_idle,
            admit=self._admit,
            on_low=self._on_low,
            seconds_left=lambda: held.seconds_left(clock.monotonic(), seconds),
        )
        self.leaser = Leaser(lane, self._inbox, shared, on_answer)

    def ticks(self) -> tuple[float | None, ...]:
        """When its loops last came round."""
        return self.leaser.ticked, self.runner.ticked

    def run(self) -> None:
        self.runner.serve(self._inbox, self._done)

    def stop(self) -> None:
        """Lease no more, and close; safe in a signal handler."""
        self.leaser.stop()

    def interrupt(self) -> None:
        """Interrupt what runs and hand it back; may raise in the main thread."""
        self.runner.stop_now()

    def reload(self) -> bool:
        return self.runner.reload()

    def hand_back(self, age: float) -> None:
        """Return jobs that have waited this long unstarted to their queue."""
        for lease in self._inbox.take_back(age):
            self._settler.settle(Nack(lease=lease, reason=UNSTARTED, inconclusive=True))

    def lose(self, leases: Sequence[Lease]) -> None:
        """Drop the leases of this lane among these, and stop their jobs where possible: other workers have them now."""
        ours = [lease for lease in leases if lease.queue in self._queues]
        if ours:
            self._pipeline.guards.drop(self._inbox.discard(ours))
            self.runner.lose(ours)

    def cancel(self, leases: Sequence[Lease]) -> None:
        """Of the jobs of this lane among these, end those that have not started and interrupt the others."""
        ours = [lease for lease in leases if lease.queue in self._queues]
        if ours:
            for lease in self._inbox.discard(ours):
                self._settler.settle(Ack(lease=lease, state="cancelled", reason=ON_REQUEST))
            self.runner.cancel(ours)

    def progress(self) -> Sequence[tuple[Lease, Progress]]:
        return self.runner.progress()

    def close(self) -> None:
        """The leaser has ended: hand back what has not started."""
        self.leaser.ticked = None
        self.hand_back(0.0)
        self._inbox.close()

    def _admit(self, leases: Sequence[Lease]) -> list[Attempt]:
        attempts, verdicts = self._pipeline.admit(leases)
        if self._pipeline.guards.has_guarded_jobs:
            self._inbox.batch_size = GUARDED_BATCH
        for verdict in verdicts:
            self._settler.settle(verdict)
        return attempts

    def _done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.kind == "lost":  # another worker settles it
            self._pipeline.guards.drop([attempt.ticket])
        else:
            self._settler.settle(self._pipeline.conclude(attempt, outcome))
        self._inbox.finished(outcome.seconds)

    def _on_low(self) -> None:
        self.leaser.demand_changed.set()

    def _on_idle(self) -> None:
        self._settler.flush_soon()
        self.leaser.demand_changed.set()
