"""The parent's handle on one child process: start it, send it orders, read its reports, kill it, describe its end."""

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tenure.execution.attempt import Attempt
from tenure.execution.parent.workload import Workload
from tenure.execution.protocol import (
    PARENT_SIGNALS,
    READY_LINE,
    InvalidFrame,
    Order,
    Report,
    ReportReader,
    encode_frame,
)
from tenure.execution.raw_output import RawOutput
from tenure.execution.shared_memory import SharedMemory
from tenure.redaction import default_redactor

_ORDERS_PER_FRAME = 64  # so that the first order can start before the last has arrived
_READ_BYTES = 1 << 16
_EXIT_POLL_SECONDS = 0.001
_KILL_TIMEOUT = 10.0  # the kernel ends a killed process at once, unless the process waits for a device
_STDERR_LINES = 20
# For the end of the standard error of a child that ended: 0.2 s lost its last lines on a busy machine. Only a child
# that left a process behind, which can still write there, takes all of it.
_LAST_LINES_SECONDS = 1.0
_MAX_STDERR_LINE = 1 << 16  # bytes; a longer line is split
_STDERR = 2
_ERASE_LINE = b"\x1b[2K"  # removes a progress line under the cursor


class ExitReport(NamedTuple):
    """How a child ended, and the last lines it wrote to its standard error."""

    how: str
    last_lines: str


class ChildProcess:
    """`pending` holds the attempts that the child was ordered to run and has not reported, in the order of the orders.

    The child leads a process group, so that the processes its jobs have started can be killed with it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], slots: int) -> None:
        orders_out, self.orders = os.pipe()
        self.reports, reports_in = os.pipe()
        self._quiet_reports, quiet_in = os.pipe()
        errors, errors_in = os.pipe()
        self.memory = SharedMemory(slots)
        self.raw_output = RawOutput()
        descriptors = (orders_out, quiet_in, reports_in, self.memory.descriptor, self.raw_output.descriptor)
        try:
            with _parent_signals_blocked():
                self._process = subprocess.Popen(
                    [*command, *map(str, descriptors)],
                    env=environment,
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    stderr=errors_in,
                    process_group=0,
                )
        except OSError:
            for descriptor in (self.orders, self.reports, self._quiet_reports, errors):
                os.close(descriptor)
            self.memory.close()
            self.raw_output.close()
            raise
        finally:
            for descriptor in (orders_out, reports_in, quiet_in, errors_in):
                os.close(descriptor)
        self._stderr = _StderrRelay(errors)
        for descriptor in (self.orders, self.reports, self._quiet_reports):
            os.set_blocking(descriptor, False)
        # In this order: a report that wakes the parent comes after those that did not.
        self._report_pipes = [(self.reports, ReportReader()), (self._quiet_reports, ReportReader())]
        self._unsent = bytearray()
        self.started = time.monotonic()
        self.pending: dict[int, Attempt] = {}
        self.workload = Workload(slots)
        self._ordered: deque[tuple[int, float]] = deque()
        self._cancel_requested: set[int] = set()
        self.pipe_is_full = False
        self.ready = False
        self.closed = False
        self.paused = False
        self.will_be_killed = False
        self.stale = False
        self.leaving = False
        self.retired_at: float | None = None
        self.jobs = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_orders(self, attempts: Mapping[int, Attempt]) -> None:
        """Queue orders for these attempts, which `workload` has counted; `send` sends them."""
        self.pending.update(attempts)
        self.jobs += len(attempts)
        self._ordered.append((max(attempts), time.monotonic()))
        orders = [_to_order(ticket, attempt) for ticket, attempt in attempts.items()]
        for start in range(0, len(orders), _ORDERS_PER_FRAME):
            self._unsent += encode_frame(orders[start : start + _ORDERS_PER_FRAME])

    def end_order(self, ticket: int) -> Attempt | None:
        """Remove an order that was reported or withdrawn; None if it was removed before."""
        attempt = self.pending.pop(ticket, None)
        if attempt is not None:
            self.workload.remove(attempt)
        return attempt

    def ordered_at(self, ticket: int) -> float:
        """When this ticket was ordered. Call it with the oldest pending ticket: it forgets all older ones."""
        while self._ordered[0][0] < ticket:
            self._ordered.popleft()
        return self._ordered[0][1]

    def send(self) -> bool:
        """Write the unsent orders; True if some are left because the pipe is full."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self.orders, self._unsent)]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._unsent.clear()
            self.closed = True  # the child is dying, or has closed its end of the pipe
        return False

    def read_reports(self) -> list[Report]:
        """The reports that have arrived; `closed` is set once no more can come."""
        reports: list[Report] = []
        for descriptor, reader in self._report_pipes:
            self._read_pipe(descriptor, reader, reports)
        return reports

    def _read_pipe(self, descriptor: int, reader: ReportReader, reports: list[Report]) -> None:
        try:
            while data := os.read(descriptor, _READ_BYTES):
                if not self.ready and data.startswith(READY_LINE):
                    self.ready, data = True, data.removeprefix(READY_LINE)
                reader.feed(data, reports)
                if len(data) < _READ_BYTES:
                    return
            self.closed = True
        except BlockingIOError:
            return
        except InvalidFrame:
            self.closed = True

    def request_cancel(self, ticket: int) -> None:
        """Ask the child, once, to cancel this job."""
        if ticket in self._cancel_requested:
            return
        self._cancel_requested.add(ticket)
        self.memory.request_cancel(ticket)
        if number := self.memory.cancel_signal():
            os.kill(self.pid, number)

    def retire(self) -> None:
        """Let the child exit: it gets no more orders."""
        if self.retired_at is None:
            self.retired_at = time.monotonic()
            os.close(self.orders)

    def kill(self) -> None:
        """Kill the child and the processes that its jobs have started in its group."""
        os.killpg(self.pid, signal.SIGKILL)

    def wait_for_exit(self, grace: float) -> str:
        """Wait until it has ended, kill it after `grace` seconds, and return how it ended."""
        overstayed = not self._exits_within(grace)
        self.kill()  # also what its jobs have left running; the kernel reserves the pid until `wait4` below
        if not self._exits_within(_KILL_TIMEOUT):
            return "the child process could not be killed"
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        if overstayed and grace:
            how = "closed its pipes or wrote invalid data to them, and was killed"
        return f"the child process {how}, peak memory {usage.ru_maxrss // 1024} MB"

    def release(self, how: str) -> ExitReport:
        """Free pipes and memory of a child that has ended."""
        self.retire()
        os.close(self.reports)
        os.close(self._quiet_reports)
        self.memory.close()
        self.raw_output.close()
        return ExitReport(how, default_redactor().text(self._stderr.last_lines(_LAST_LINES_SECONDS)))

    def _exits_within(self, seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() >= give_up:
                return False
            time.sleep(_EXIT_POLL_SECONDS)
        return True


def _to_order(ticket: int, attempt: Attempt) -> Order:
    return Order(ticket, attempt.ticket.body, attempt.number, attempt.crashes, attempt.fence, attempt.timeout)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


@contextmanager
def _parent_signals_blocked() -> Iterator[None]:
    """A process that is started meanwhile does not receive these signals until it has installed its own handlers."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PARENT_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _StderrRelay:
    """Copies what a child writes to its standard error to the worker's, line by line, and remembers the last lines.

    It has a thread of its own: a slow reader of the worker's standard error delays only the child that writes.
    The thread ends, and closes its descriptor, when no process can write to the pipe any more.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._start = _ERASE_LINE if os.isatty(_STDERR) and os.environ.get("TERM") != "dumb" else b""
        self._last: deque[bytes] = deque(maxlen=_STDERR_LINES)
        self._thread = threading.Thread(target=self._run, name="tenure-stderr", daemon=True)
        self._thread.start()

    def last_lines(self, wait: float) -> str:
        """The last lines of a child that has ended; waits so long for the end of the pipe."""
        self._thread.join(wait)
        return b"\n".join(self._last).decode("utf-8", "replace").strip()

    def _run(self) -> None:
        rest = b""
        while data := os.read(self._descriptor, _MAX_STDERR_LINE):
            *lines, rest = (rest + data).split(b"\n")
            self._write(lines)
            if len(rest) >= _MAX_STDERR_LINE:
                self._write([rest])
                rest = b""
        if rest:
            self._write([rest])
        os.close(self._descriptor)

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self._last.extend(lines)
        text = memoryview(b"".join(self._start + line + b"\n" for line in lines))
        with suppress(OSError):  # the worker's standard error is closed
            while text:
                text = text[os.write(_STDERR, text) :]
