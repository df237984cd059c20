"""The parent's handle on one child: start it, feed it, hear it, and tell how it died."""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tenure.execution.attempt import Attempt
from tenure.execution.children.echo import Echo
from tenure.execution.children.frames import Frames, Garbled, Order, Report, decode_report, frame
from tenure.execution.children.marks import Marks
from tenure.execution.children.signals import held_back
from tenure.redaction import usual

_FRAME = 64  # orders in a frame: the first can start before the last has arrived
_EMPTY = frame([])[4:]
_READ = 1 << 16
_LOOK = 0.001
_DEATH = 10.0  # the kernel ends a killed process at once, unless it waits for a device


class Evidence(NamedTuple):
    """How a child ended, and what it had said last."""

    how: str
    said: str


class Child:
    """`pending` are the attempts it was ordered to run and has not reported, in the order they were given.

    It leads a process group, so that what its jobs have started can be ended with it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], slots: int) -> None:
        orders_out, self.orders = os.pipe()
        self.reports, reports_in = os.pipe()
        errors, errors_in = os.pipe()
        self.marks = Marks(slots)
        descriptors = (orders_out, reports_in, self.marks.descriptor)
        try:
            with held_back():
                self._process = subprocess.Popen(
                    [*command, *map(str, descriptors)],
                    env=environment,
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    stderr=errors_in,
                    process_group=0,
                )
        except OSError:
            for descriptor in (self.orders, self.reports, errors):
                os.close(descriptor)
            self.marks.close()
            raise
        finally:
            for descriptor in (orders_out, reports_in, errors_in):
                os.close(descriptor)
        self._echo = Echo(errors)
        for descriptor in (self.orders, self.reports):
            os.set_blocking(descriptor, False)
        self._frames = Frames()
        self._unsent = bytearray()
        self.started = time.monotonic()
        self.pending: dict[int, Attempt] = {}
        self._given: deque[tuple[int, float]] = deque()
        self._asked: set[int] = set()
        self.full = False
        self.ready = False
        self.silent = False
        self.paused = False
        self.doomed = False
        self.stale = False
        self.leaving = False
        self.retired: float | None = None
        self.jobs = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, attempts: Mapping[int, Attempt]) -> None:
        """Order these attempts; `send` sends them."""
        self.pending.update(attempts)
        self.jobs += len(attempts)
        self._given.append((max(attempts), time.monotonic()))
        orders = [_order(ticket, attempt) for ticket, attempt in attempts.items()]
        for start in range(0, len(orders), _FRAME):
            self._unsent += frame(orders[start : start + _FRAME])

    def given_at(self, ticket: int) -> float:
        """When this was ordered; asked for the oldest, so that what is older can be forgotten."""
        while self._given[0][0] < ticket:
            self._given.popleft()
        return self._given[0][1]

    def send(self) -> bool:
        """Push what is unsent; True when some is left because the pipe is full."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self.orders, self._unsent)]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._unsent.clear()
            self.silent = True  # it is dying, or has closed what it hears us with
        return False

    def heard(self) -> list[Report]:
        """The reports that have come; `silent` from when none can come any more."""
        reports: list[Report] = []
        try:
            while data := os.read(self.reports, _READ):
                for each in self._frames.feed(data):
                    if each == _EMPTY:
                        self.ready = True
                    else:
                        reports.append(decode_report(each))
                if len(data) < _READ:
                    return reports
            self.silent = True
        except BlockingIOError:
            return reports
        except Garbled:
            self.silent = True
        return reports

    def ask(self, ticket: int) -> None:
        """Tell it that somebody wants this job cancelled, once."""
        if ticket in self._asked:
            return
        self._asked.add(ticket)
        self.marks.ask(ticket)
        if bell := self.marks.bell():
            os.kill(self.pid, bell)

    def retire(self) -> None:
        """It may go: there will be no more orders."""
        if self.retired is None:
            self.retired = time.monotonic()
            os.close(self.orders)

    def kill(self) -> None:
        """End it and whatever its jobs have started in its group."""
        os.killpg(self.pid, signal.SIGKILL)

    def end(self, grace: float) -> str:
        """Wait for its end, and kill it when it is not gone in time; tells how it ended."""
        overstayed = not self._gone_within(grace)
        self.kill()  # what its jobs have left behind; its number is ours until we have waited for it
        if not self._gone_within(_DEATH):
            return "the child process could not be killed"
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
        if overstayed and grace:
            how = "closed or garbled its pipes and was killed"
        return f"the child process {how}, peak memory {usage.ru_maxrss // 1024} MB"

    def bury(self, how: str) -> Evidence:
        """Free what it held, once it has ended."""
        self.retire()
        os.close(self.reports)
        self.marks.close()
        return Evidence(how, usual().text(self._echo.last_lines(wait=0.2)))

    def _gone_within(self, seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() >= give_up:
                return False
            time.sleep(_LOOK)
        return True


def _order(ticket: int, attempt: Attempt) -> Order:
    return Order(ticket, attempt.ticket.body, attempt.number, attempt.crashes, attempt.fence, attempt.timeout)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
