"""The child's side: read orders, run them, report; user code lives here and nothing else depends on it."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from tenure.clock import Clock
from tenure.definition.handler import Handler
from tenure.execution.attempt import Attempt, Performer
from tenure.execution.children.frames import Frames, Order, Report, decode_orders, frame
from tenure.execution.children.marks import Marks
from tenure.execution.outcome import Outcome
from tenure.wire.envelope import Envelope, peek

_PR_SET_PDEATHSIG = 1
Resolve = Callable[[str], Handler]


class Pipes:
    """The two ends a child is given: orders come in, reports go out."""

    def __init__(self, orders: int, reports: int) -> None:
        self._orders = orders
        self._reports = reports
        self._writing = threading.Lock()  # a frame larger than the pipe's atomic size must not be cut by another

    def orders(self) -> Iterator[list[Order]]:
        """Batches of orders until the parent closes its end, which is how it says that the child may go."""
        frames = Frames()
        while data := os.read(self._orders, 1 << 16):
            for each in frames.feed(data):
                yield decode_orders(each)

    def hello(self) -> None:
        """Tell the parent that the app is loaded."""
        write_all(self._reports, frame([]))

    def report(self, report: Report) -> None:
        data = frame(report)
        with self._writing:
            write_all(self._reports, data)


def run_in_turn(pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
    """The `process` runner's child: one job at a time, in the main thread, so that SIGALRM can stop it."""
    with Performer(clock) as performer:
        for batch in pipes.orders():
            for order in batch:
                if marks.begin(0, order.ticket):
                    outcome = performer.perform(to_attempt(order, resolve))
                else:
                    outcome = withdrawn(clock)
                pipes.report(Report(order.ticket, outcome))
            marks.end(0)


def to_attempt(order: Order, resolve: Resolve) -> Attempt:
    envelope: Envelope = peek(order.body)
    handler = resolve(envelope.job)
    return Attempt(handler, envelope, order.number, order.crashes, order.fence, order.timeout, order.ticket)


def withdrawn(clock: Clock) -> Outcome:
    """For an order the parent took back before it started; when both noticed at once, this settles who has it."""
    return Outcome(kind="interrupted", started=clock.now(), seconds=0.0, reason="withdrawn")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent goes; and go now if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def leave_signals_to_parent() -> None:
    """Ctrl-C reaches the whole foreground group; the parent decides what becomes of running jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
