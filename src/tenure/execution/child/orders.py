"""Orders in a child: read them from the pipe, turn each into an attempt, report its outcome to the parent.

The three kinds of children (`process.py`, `threads.py`, `event_loop.py`) share this.
"""

import os
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from msgspec import UNSET

from tenure.clock import Clock
from tenure.definition.handler import Handler
from tenure.errors import NewerPayload, UnknownHandler
from tenure.execution.attempt import Attempt, check_version
from tenure.execution.outcome import Outcome, OutcomeKind
from tenure.execution.protocol import (
    READY_LINE,
    WAKE_LINE,
    FrameReader,
    Order,
    Report,
    decode_orders,
    encode_report,
    encode_reports,
)
from tenure.execution.shared_memory import SharedMemory
from tenure.wire.envelope import Envelope, peek

_EX_SOFTWARE = 70  # of sysexits.h
_UNKNOWN_HANDLER_DELAY = 5.0
_MAX_QUIET_BYTES = 512  # a pipe has room for 64 KiB: the reports of 128 jobs, while the parent reads none
Resolve = Callable[[str], Handler]


class OrderPipes:
    """The child's pipe ends: orders come in, reports go out. A copy of the process made by fork has none of them.

    `raw_output` is the descriptor of the file for what jobs write past `sys.stdout`.
    """

    def __init__(self, orders: int, quiet_reports: int, reports: int, raw_output: int) -> None:
        """`quiet_reports` is the pipe for which the parent does not wait."""
        self.orders = orders
        self.quiet_reports = quiet_reports
        self._reports = reports
        self.raw_output = raw_output
        self._frames = FrameReader()
        self._writing = threading.Lock()  # reports larger than PIPE_BUF must not be mixed with others
        for descriptor in (orders, quiet_reports, reports, raw_output):
            os.set_inheritable(descriptor, False)
        os.register_at_fork(after_in_child=self.close)

    def read(self) -> list[Order] | None:
        """Wait for the next orders; None once the parent has closed its end: then the child may exit."""
        data = os.read(self.orders, 1 << 16)
        return [order for frame in self._frames.feed(data) for order in decode_orders(frame)] if data else None

    def report_ready(self) -> None:
        """Report to the parent that the app is loaded."""
        _write_all(self._reports, READY_LINE)

    def report(self, *reports: Report) -> None:
        self.write(encode_reports(reports))

    def write(self, data: bytes) -> None:
        with self._writing:
            _write_all(self._reports, data)

    def wake_parent(self) -> None:
        _write_all(self._reports, WAKE_LINE)

    def close(self) -> None:
        """The parent notices the child's end by the end of these pipes, so no copy may hold them open."""
        for descriptor in (self.orders, self.quiet_reports, self._reports):
            with suppress(OSError):
                os.close(descriptor)


class OrderHandler:
    """Turns orders into attempts and outcomes into reports."""

    def __init__(self, pipes: OrderPipes, memory: SharedMemory, resolve: Resolve, clock: Clock) -> None:
        self._pipes = pipes
        self._memory = memory
        self._resolve = resolve
        self._clock = clock

    def start(self, slot: int, order: Order) -> Attempt | None:
        """The attempt to run in this slot; None if there is nothing to run, which is then already reported."""
        if not self._memory.start(slot, order.ticket):
            # The parent withdrew the order before it started, or was stopped for so long that the lease ended.
            # If parent and child acted at once, this report decides who has the job.
            self.report(slot, order, self._not_run("interrupted", "withdrawn"))
            return None
        envelope: Envelope = peek(order.body)
        try:
            handler = self._resolve(envelope.job)
            if envelope.version is not UNSET:
                check_version(handler, envelope)
        except (UnknownHandler, NewerPayload) as error:  # the parent has other code: a deploy is under way
            reason = error.reason if isinstance(error, NewerPayload) else "unknown_handler"
            self.report(slot, order, self._not_run("postponed", reason, _UNKNOWN_HANDLER_DELAY))
            return None
        return Attempt(handler, envelope, order.number, order.crashes, order.fence, order.timeout, order.ticket)

    def report(self, slot: int, order: Order, outcome: Outcome) -> None:
        self.report_all([(slot, Report(order.ticket, outcome))])

    def report_quietly(self, slot: int, order: Order, outcome: Outcome) -> None:
        """Report without waking the parent, unless the report is large."""
        data = encode_report(Report(order.ticket, outcome))
        if len(data) <= _MAX_QUIET_BYTES:
            os.write(self._pipes.quiet_reports, data)  # so few bytes are always written at once
        else:
            self._pipes.write(data)
        self._memory.clear(slot)

    def report_all(self, reports: Sequence[tuple[int, Report]]) -> None:
        """Write all reports at once, and only then clear their slots."""
        self._pipes.report(*(report for _, report in reports))
        for slot, _ in reports:
            self._memory.clear(slot)

    def _not_run(self, kind: OutcomeKind, reason: str, delay: float | None = None) -> Outcome:
        return Outcome(kind=kind, started=self._clock.now(), seconds=0.0, reason=reason, delay=delay)


def end_process(error: BaseException) -> NoReturn:
    """End the child after an error of its own code; the parent treats this as a crash."""
    traceback.print_exception(error)
    os._exit(_EX_SOFTWARE)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
