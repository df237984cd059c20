"""Worker: owns the roles; starts them, serves in the calling thread, and stops them in the order that loses nothing."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence

from tenure.backends.contract import Backend, Lease, Nack
from tenure.events import Listeners, Status, WorkerStarted, WorkerStopped
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome
from tenure.execution.runners.contract import Runner
from tenure.worker.holdings import Holdings
from tenure.worker.inbox import Inbox
from tenure.worker.keeper import Keeper
from tenure.worker.lane import Lane
from tenure.worker.leaser import Leaser
from tenure.worker.pipeline import Pipeline
from tenure.worker.roles import Role, RoleThread
from tenure.worker.settler import Settler
from tenure.worker.verdict import UNSTARTED

_PATIENCE = 5.0  # for roles nothing depends on: a hook of the user's that hangs must not keep the worker


# Each statement gives the interpreter away and wants it back while others wait for the database: taking it back
# within this time instead of 5 ms drained 10 % faster.
_SWITCH = 0.0001


class Worker:
    """One lane served by one runner; `run` returns when it is told to stop, or when a bounded lane is done."""

    def __init__(
        self,
        backend: Backend,
        lane: Lane,
        pipeline: Pipeline,
        runner: Runner,
        listeners: Listeners,
        name: str,
        companions: Sequence[Role] = (),
    ) -> None:
        """`companions` are roles that live as long as the worker and that nothing waits for."""
        self._lane = lane
        self._pipeline = pipeline
        self._runner = runner
        self._listeners = listeners
        self.name = name
        self._death: BaseException | None = None
        self._kept: float | None = None
        self._holdings = holdings = Holdings()
        self._settler = Settler(backend, holdings, listeners)
        self._inbox = Inbox(runner.concurrency, on_idle=self._idle, admit=self._admit)
        self._leaser = Leaser(backend, lane, self._inbox, holdings, self._settler, listeners)
        keeper = Keeper(backend, lane, holdings, listeners, pipeline.clock, self._keep, self._lose)
        self._leasing = RoleThread(self._leaser, self._die, on_end=self._leased_all)
        self._settling = RoleThread(self._settler, self._die)
        self._others = [RoleThread(role, self._die) for role in (keeper, *companions)]

    @property
    def tally(self) -> Counter[Status]:
        """What became of every delivery so far."""
        return self._settler.tally

    @property
    def ready(self) -> threading.Event:
        """Set once the backend has answered the first lease."""
        return self._leaser.ready

    def silence(self) -> float:
        """Seconds since the slowest of its loops last came round; a job may run for as long as it likes."""
        now = time.monotonic()
        ticks = (self._leaser.ticked, self._settler.ticked, self._runner.ticked, self._kept)
        return max((now - tick for tick in ticks if tick is not None), default=0.0)

    def jobs(self, most: int = 20) -> tuple[str, ...]:
        """The ids of the jobs it holds, those it has held longest first."""
        return self._holdings.ids(most)

    def run(self) -> Counter[Status]:
        """Work until stopped or done; returns the tally, or raises what killed a role."""
        self._listeners.emit(WorkerStarted(self.name, self._lane.queues))
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        for thread in (self._settling, *self._others, self._leasing):
            thread.start()
        try:
            self._runner.serve(self._inbox, self._done)
        finally:
            for thread in (self._leasing, self._settling):
                thread.stop()
            for thread in self._others:
                thread.stop(_PATIENCE)
            sys.setswitchinterval(usual)
            self._listeners.emit(WorkerStopped(self.name))
        if self._death is not None:
            raise self._death
        return self.tally

    def stop(self) -> None:
        """Finish what is running, hand back the rest, settle, and return from `run`; safe in a signal handler."""
        self._leaser.stop()

    def stop_now(self) -> None:
        """As `stop`, but what is running is interrupted and handed back, at no cost to the job."""
        self._leaser.stop()
        self._runner.stop_now()

    def drain(self) -> None:
        """Finish everything that is ready, then return from `run`; safe in a signal handler."""
        self._leaser.drain()

    def reload(self) -> bool:
        """Have fresh child processes take over, which import the code as it is now; False where there are none."""
        return self._runner.reload()

    def _admit(self, leases: Sequence[Lease]) -> list[Attempt]:
        attempts, verdicts = self._pipeline.admit(leases)
        for verdict in verdicts:
            self._settler.settle(verdict)
        return attempts

    def _done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.kind != "lost":  # a lost lease is not ours to settle
            self._settler.settle(self._pipeline.conclude(attempt, outcome))
        self._inbox.finished(outcome.seconds)

    def _idle(self) -> None:
        self._settler.hurry()
        self._leaser.room.set()

    def _keep(self, age: float) -> None:
        self._kept = time.monotonic()
        self._hand_back(age)

    def _hand_back(self, age: float) -> None:
        """What has waited this long without starting goes back to its place."""
        for lease in self._inbox.take_back(age):
            self._settler.settle(Nack(lease=lease, reason=UNSTARTED))

    def _lose(self, leases: Sequence[Lease]) -> None:
        self._inbox.discard(leases)
        self._runner.lose(leases)

    def _leased_all(self) -> None:
        self._leaser.ticked = None
        self._hand_back(0.0)
        self._inbox.close()

    def _die(self, error: BaseException) -> None:
        self._death = self._death or error
        self._leaser.stop()
