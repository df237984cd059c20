"""The parent's handle on one child: start it, feed it, hear it, and tell how it died."""

import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence

from tenure.execution.attempt import Attempt
from tenure.execution.children.frames import Frames, Order, Report, decode_report, frame
from tenure.execution.children.marks import Marks

_TAIL = 20
_FRAME = 64  # orders in a frame: the first can start before the last has arrived
_EMPTY = frame([])[4:]


class Child:
    """`pending` are the attempts it was ordered to run and has not reported, in the order they were given."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], slots: int) -> None:
        orders_out, self.orders = os.pipe()
        self.reports, reports_in = os.pipe()
        self.marks = Marks(slots)
        descriptors = (orders_out, reports_in, self.marks.descriptor)
        self._process = subprocess.Popen(
            [*command, *map(str, descriptors)],
            env=environment,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        os.close(orders_out)
        os.close(reports_in)
        assert self._process.stderr is not None  # noqa: S101 - asked for above
        self.errors = self._process.stderr.fileno()
        for descriptor in (self.orders, self.reports, self.errors):
            os.set_blocking(descriptor, False)
        self._frames = Frames()
        self._unsent = bytearray()
        self._said: deque[bytes] = deque(maxlen=_TAIL)
        self.pending: dict[int, Attempt] = {}
        self.ready = False
        self.closing = False
        self.jobs = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, attempts: Mapping[int, Attempt]) -> None:
        """Order these attempts; what the pipe does not take now is sent later."""
        self.pending.update(attempts)
        orders = [_order(ticket, attempt) for ticket, attempt in attempts.items()]
        for start in range(0, len(orders), _FRAME):
            self._unsent += frame(orders[start : start + _FRAME])
        self.send()

    def send(self) -> bool:
        """Push what is unsent; True when some is left because the pipe is full."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self.orders, self._unsent)]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._unsent.clear()  # it is dying, and will be heard to
        return False

    def heard(self) -> list[Report] | None:
        """New reports; None once the child has closed its end."""
        reports: list[Report] = []
        try:
            while data := os.read(self.reports, 1 << 16):
                for each in self._frames.feed(data):
                    if each == _EMPTY:
                        self.ready = True
                    else:
                        reports.append(decode_report(each))
                if len(data) < 1 << 16:
                    return reports
        except BlockingIOError:
            return reports
        return reports or None

    def said(self) -> bytes:
        """What it wrote to its standard error since the last time."""
        try:
            data = os.read(self.errors, 1 << 16)
        except BlockingIOError:
            return b""
        self._said.extend(data.splitlines())
        return data

    def retire(self) -> None:
        """Let it finish what it was given, then go."""
        self.closing = True
        if self.orders >= 0:
            os.close(self.orders)
            self.orders = -1

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    def bury(self) -> str:
        """Wait for its end and free what it held; returns the evidence."""
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        self.said()
        if self.orders >= 0:
            os.close(self.orders)
        os.close(self.reports)
        self.marks.close()
        assert self._process.stderr is not None  # noqa: S101 - asked for at the start
        self._process.stderr.close()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        tail = b"\n".join(self._said).decode("utf-8", "replace").strip()
        said = f"; its last lines were:\n{tail}" if tail else ""
        return f"the child process {how}, peak memory {usage.ru_maxrss // 1024} MB{said}"


def _order(ticket: int, attempt: Attempt) -> Order:
    return Order(ticket, attempt.ticket.body, attempt.number, attempt.crashes, attempt.fence, attempt.timeout)
