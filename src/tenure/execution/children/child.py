"""The child's side: read orders, run them, report; user code lives here and nothing else depends on it."""

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from tenure.clock import Clock
from tenure.definition.handler import Handler
from tenure.errors import NewerPayload, UnknownHandler
from tenure.execution.attempt import Attempt, Performer, check_version
from tenure.execution.children.frames import Frames, Order, Report, decode_orders, frame
from tenure.execution.children.marked_link import MarkedLink
from tenure.execution.children.marks import Marks
from tenure.execution.children.tidiness import Tidiness
from tenure.execution.outcome import Kind, Outcome
from tenure.wire.envelope import Envelope, peek

_PR_SET_PDEATHSIG = 1
_BROKEN = 70  # EX_SOFTWARE of sysexits.h
_LOOK_AGAIN = 5.0
Resolve = Callable[[str], Handler]


class Pipes:
    """The two ends a child is given: orders come in, reports go out; a copy made by fork has neither."""

    def __init__(self, orders: int, reports: int) -> None:
        self.orders = orders
        self._reports = reports
        self._frames = Frames()
        self._writing = threading.Lock()  # a frame larger than the pipe's atomic size must not be cut by another
        for descriptor in (orders, reports):
            os.set_inheritable(descriptor, False)
        os.register_at_fork(after_in_child=self.close)

    def read(self) -> list[Order] | None:
        """The next orders; None once the parent has closed its end, which is how it says that the child may go."""
        data = os.read(self.orders, 1 << 16)
        return [order for each in self._frames.feed(data) for order in decode_orders(each)] if data else None

    def hello(self) -> None:
        """Tell the parent that the app is loaded."""
        _write_all(self._reports, frame([]))

    def report(self, *reports: Report) -> None:
        data = b"".join(map(frame, reports))
        with self._writing:
            _write_all(self._reports, data)

    def close(self) -> None:
        """The parent learns of the child's end by the end of these pipes: no copy may hold them open."""
        for descriptor in (self.orders, self._reports):
            with suppress(OSError):
                os.close(descriptor)


class Desk:
    """Takes each order to its report; what the kinds of children have in common."""

    def __init__(self, pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
        self._pipes = pipes
        self._marks = marks
        self._resolve = resolve
        self._clock = clock

    def begin(self, slot: int, order: Order) -> Attempt | None:
        """The attempt to run in this slot; None when there is nothing to run, which is then reported."""
        if not self._marks.begin(slot, order.ticket):
            # The parent took it back before it started; when both noticed at once, this settles who has it.
            self.report(slot, order, self._not_run("interrupted", "withdrawn"))
            return None
        envelope: Envelope = peek(order.body)
        try:
            handler = self._resolve(envelope.job)
            check_version(handler, envelope)
        except (UnknownHandler, NewerPayload) as error:  # our code is not the parent's: a deploy is under way
            reason = error.reason if isinstance(error, NewerPayload) else "unknown_handler"
            self.report(slot, order, self._not_run("postponed", reason, _LOOK_AGAIN))
            return None
        return Attempt(handler, envelope, order.number, order.crashes, order.fence, order.timeout, order.ticket)

    def report(self, slot: int, order: Order, outcome: Outcome) -> None:
        self.report_all([(slot, Report(order.ticket, outcome))])

    def report_all(self, reports: Sequence[tuple[int, Report]]) -> None:
        """In one write; only then are they taken off the marks."""
        self._pipes.report(*(report for _, report in reports))
        for slot, _ in reports:
            self._marks.end(slot)

    def _not_run(self, kind: Kind, reason: str, delay: float | None = None) -> Outcome:
        return Outcome(kind=kind, started=self._clock.now(), seconds=0.0, reason=reason, delay=delay)


def run_in_turn(pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
    """The `process` runner's child: one job at a time, in the main thread, so that SIGALRM can stop it."""
    desk = Desk(pipes, marks, resolve, clock)
    with Performer(clock) as performer:
        marks.hear_by(signal.SIGALRM)
        tidiness = Tidiness()
        while (orders := pipes.read()) is not None:
            for order in orders:
                attempt = desk.begin(0, order)
                if attempt is None:
                    continue
                outcome = performer.perform(attempt, MarkedLink(marks, 0, order.ticket))
                is_tidy = tidiness.restore()
                desk.report(0, order, outcome)
                if not is_tidy or (outcome.failure is not None and outcome.failure.type == "MemoryError"):
                    pipes.close()  # what is left here is anybody's guess: the next job gets a fresh process
                    return


def end_process(error: BaseException) -> NoReturn:
    """What cannot go on here must not go unnoticed: the parent takes an ended process for a crash."""
    traceback.print_exception(error)
    os._exit(_BROKEN)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent goes; and go now if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), name="tenure-parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
