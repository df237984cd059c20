"""Worker: owns the roles; starts them, serves in the calling thread, and stops them in the order that loses nothing."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence

from tenure.backends.asking import Steerable
from tenure.backends.contract import Backend, Lease
from tenure.definition.progress import Progress
from tenure.events import Listeners, Status, WorkerStarted, WorkerStopped
from tenure.execution.runners.contract import Runner
from tenure.worker.bounds import Bounds
from tenure.worker.chronicler import Chronicler
from tenure.worker.execution_log import ExecutionLog
from tenure.worker.holdings import Holdings
from tenure.worker.keeper import Keeper
from tenure.worker.lane import Lane
from tenure.worker.open_lane import OpenLane
from tenure.worker.pipeline import Pipeline
from tenure.worker.roles import Role, RoleThread
from tenure.worker.settler import Settler
from tenure.worker.shared import Shared
from tenure.worker.steersman import Steersman
from tenure.worker.terms import Terms

_PATIENCE = 5.0  # for roles nothing depends on: a hook of the user's that hangs must not keep the worker


# Each statement gives the interpreter away and wants it back while others wait for the database: taking it back
# within this time instead of 5 ms drained 10 % faster on SQLite; less than this costs Redis 7 %.
_SWITCH = 0.001


class Worker:
    """Lanes, each with its runner; `run` returns when it is told to stop, or when a bounded worker is done.

    Each lane leases and runs by itself; one settler, one keeper and one of each companion serve them all.
    """

    def __init__(
        self,
        backend: Backend,
        lanes: Sequence[tuple[Lane, Runner]],
        terms: Terms,
        pipeline: Pipeline,
        listeners: Listeners,
        name: str,
        companions: Sequence[Role] = (),
    ) -> None:
        """The first lane is served in the thread that calls `run`, the others in threads of their own.

        `companions` are roles that live as long as the worker and that nothing waits for.
        """
        pipeline.worker = name
        self._terms = terms
        self._listeners = listeners
        self.name = name
        self.ready = threading.Event()
        self._answers: list[None] = []
        self._death: BaseException | None = None
        self._kept: float | None = None
        self._log: ExecutionLog | None = None
        self._holdings = holdings = Holdings()
        self._settler = settler = Settler(backend, holdings, listeners, pipeline.warden, name)
        self._bounds = Bounds(terms, len(lanes), holdings, settler.tally)
        shared = Shared(backend, terms, pipeline, holdings, settler, self._bounds, listeners, pipeline.warden.outage())
        self._warden = pipeline.warden
        self._lanes = [OpenLane(lane, runner, shared, self._answered) for lane, runner in lanes]
        keeper = Keeper(backend, terms, holdings, listeners, pipeline, self._keep, self._lose)
        self._leasing = [RoleThread(lane.leaser, self._die, on_end=lane.close) for lane in self._lanes]
        self._serving = [RoleThread(lane, self._die) for lane in self._lanes[1:]]
        self._settling = RoleThread(self._settler, self._die)
        roles: list[Role] = [keeper, *companions]
        if isinstance(backend, Steerable):
            roles.append(Steersman(backend, holdings, self._cancel, self._progress))
        self._others = [RoleThread(role, self._die) for role in roles]

    def accompany(self, role: Role) -> None:
        """Have another role live as long as this worker; before `run`."""
        self._others.append(RoleThread(role, self._die))

    def remember(self, chronicler: Chronicler) -> None:
        """Have what is settled written down, where the backend does not remember it; before `run`."""
        self._settler.chronicler = chronicler
        self.accompany(chronicler)

    def record(self, log: ExecutionLog) -> None:
        """Have what becomes of jobs written there; before `run`, which closes it."""
        self._settler.recorder = self._log = log

    @property
    def tally(self) -> Counter[Status]:
        """What became of every delivery so far."""
        return self._settler.tally

    def silence(self) -> float:
        """Seconds since the slowest of its loops last came round; a job may run for as long as it likes."""
        now = time.monotonic()
        ticks = (self._settler.ticked, self._kept, *(tick for lane in self._lanes for tick in lane.ticks()))
        return max((now - tick for tick in ticks if tick is not None), default=0.0)

    def jobs(self, most: int = 20) -> tuple[str, ...]:
        """The ids of the jobs it holds, those it has held longest first."""
        return self._holdings.ids(most)

    def run(self) -> Counter[Status]:
        """Work until stopped or done; returns the tally, or raises what killed a role."""
        self._listeners.emit(WorkerStarted(self.name, self._terms.queues))
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        for thread in (self._settling, *self._others, *self._leasing, *self._serving):
            thread.start()
        try:
            self._lanes[0].run()
        finally:
            self.stop()  # it may have ended by itself, as an inline runner does that is worn
            for thread in (*self._leasing, *self._serving, self._settling):
                thread.stop()
            for thread in self._others:
                thread.stop(_PATIENCE)
            sys.setswitchinterval(usual)
            if self._log is not None:
                self._log.close()
            self._listeners.emit(WorkerStopped(self.name))
        if self._death is not None:
            raise self._death
        return self.tally

    def stop(self) -> None:
        """Finish what is running, hand back the rest, settle, and return from `run`; safe in a signal handler."""
        for lane in self._lanes:
            lane.stop()

    def stop_now(self) -> None:
        """As `stop`, but what is running is interrupted and handed back, at no cost to the job."""
        self.stop()
        for lane in reversed(self._lanes):  # the first may raise into the job that it runs in this thread
            lane.interrupt()

    def drain(self) -> None:
        """Finish everything that is ready, then return from `run`; safe in a signal handler."""
        self._bounds.drain()

    def reload(self) -> bool:
        """Have fresh child processes take over, which import the code as it is now; False where jobs run here."""
        return all(lane.reload() for lane in self._lanes)  # the inline one is asked first

    def _answered(self) -> None:
        self._answers.append(None)
        if len(self._answers) == len(self._lanes):
            self.ready.set()

    def _keep(self, age: float) -> None:
        self._kept = time.monotonic()
        for lane in self._lanes:
            lane.hand_back(age)

    def _lose(self, leases: Sequence[Lease]) -> None:
        self._warden.lose(leases)
        for lane in self._lanes:
            lane.lose(leases)

    def _cancel(self, leases: Sequence[Lease]) -> None:
        for lane in self._lanes:
            lane.cancel(leases)

    def _progress(self) -> list[tuple[Lease, Progress]]:
        return [told for lane in self._lanes for told in lane.progress()]

    def _die(self, error: BaseException) -> None:
        self._death = self._death or error
        self.stop()
