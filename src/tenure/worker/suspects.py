"""SuspectRunner: has the suspects of a worker's queues run, each under a parent of its own.

A suspect may kill its whole worker, so it runs in a separate worker process, `tenure work --suspects`, which leases one
suspect at a time. That process has its own session and outlives this worker: otherwise the death of this worker would
be charged to the suspect. Where no other process can run the jobs, the leaser of this worker leases a suspect when
nothing else is held.
"""

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from tenure.backends.contract import Backend
from tenure.errors import BackendError
from tenure.worker.guard_holder import Room
from tenure.worker.lane import Lane
from tenure.worker.roles import GrowingDelay, OutageLog

logger = logging.getLogger(__name__)

StartProcess = Callable[[Lane], "subprocess.Popen[bytes]"]
_OWN_CHECK_SECONDS = 1.0  # in this process a suspect takes turns with the other jobs
_BURST_POLL_SECONDS = 0.1


class SuspectRunner:
    """A role; at most one process at a time, beyond the concurrency of the worker."""

    def __init__(
        self,
        backend: Backend,
        lanes: Sequence[Lane],
        room: Callable[[list[str]], tuple[Room, float]],
        interval: float,
        outage: OutageLog | None = None,
    ) -> None:
        """`room` leaves out queues that are paused or out of tokens; `interval` is the time between two checks.

        Without `start`, suspects run in this process.
        """
        self._backend = backend
        self._lanes = lanes
        self._room = room
        self._interval = interval
        self._outage = outage or OutageLog()
        self._stopping = threading.Event()
        self._check = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._terminated: subprocess.Popen[bytes] | None = None
        self._delay = GrowingDelay(first=interval, longest=20 * interval)
        self.start: StartProcess | None = None
        self.next_here: Lane | None = None  # whose leaser should lease a suspect next, if they run in this process
        self._gave_up = False  # whether the last process left suspects behind
        self.failed = False  # whether a process failed, or jobs died in it

    def run(self) -> None:
        while not self._stopping.is_set():
            self._check.wait(self._interval if self.start else min(self._interval, _OWN_CHECK_SECONDS))
            self._check.clear()
            try:
                self._run_suspects()
            except BackendError as error:
                self._outage.failed(logger, "asking for suspects", error)
            except OSError as error:  # too many processes, no memory
                logger.warning("a process for suspects could not be started, trying again: %s", error)

    def stop(self) -> None:
        """Let the running suspect finish within the stop grace of its process; safe in a signal handler."""
        self._end()
        if (process := self._process) is not None:
            self._terminate(process)

    def stop_now(self) -> None:
        """Have the running suspect handed back at once; safe in a signal handler."""
        self._end()
        if (process := self._process) is not None:
            process.send_signal(signal.SIGQUIT)

    def have_work(self) -> bool:
        """Whether a worker that ends when nothing is left has to wait for suspects; pauses if so."""
        if self._gave_up:
            return False
        if self._process is None:
            try:
                lane = self._find_lane()
            except BackendError as error:
                self._outage.failed(logger, "asking for suspects", error)
            else:
                if lane is None:
                    return False
                if self.start is None:
                    self.next_here = lane
                    return True
        self._check.set()
        time.sleep(_BURST_POLL_SECONDS)
        return True

    def _run_suspects(self) -> None:
        while not self._stopping.is_set() and (lane := self._find_lane()):
            if self.start is None:
                self.next_here = lane
                return
            code = self._run_process(self.start(lane))
            if code:
                self.failed |= code > 0
                logger.warning("the process that ran suspects of %s ended with code %d", ", ".join(lane.queues), code)
            self._gave_up = self._find_lane() is not None
            if self._gave_up:
                self._stopping.wait(self._delay.next())
            else:
                self._delay.reset()

    def _find_lane(self) -> Lane | None:
        """The first lane with a suspect that may run now."""
        for lane in self._lanes:
            room, _ = self._room(list(lane.queues))
            if room and self._backend.has_suspects([queue for queues, _ in room for queue in queues]):
                return lane
        return None

    def _run_process(self, process: "subprocess.Popen[bytes]") -> int:
        self._process = process
        logger.info("process %d runs suspects, one at a time", process.pid)
        if self._stopping.is_set():
            self._terminate(process)
        code = process.wait()
        self._process = None
        return code

    def _end(self) -> None:
        self._stopping.set()
        self._check.set()

    def _terminate(self, process: "subprocess.Popen[bytes]") -> None:
        """Once for each process: the second SIGTERM would interrupt its job."""
        if process is not self._terminated:
            self._terminated = process
            process.send_signal(signal.SIGTERM)
