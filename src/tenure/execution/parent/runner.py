"""The runner whose jobs run in child processes: it sends them orders, reads reports, enforces the stop rules.

The kind of child decides what one child does with its jobs: one at a time, on threads, or on an event loop (`child/`).
Everything here runs in the worker's process, in the thread that calls `serve`; only the requests (`stop_now`,
`reload`, `lose`, `cancel`), `progress`, `running` and `child_pids` are called from other threads.
"""

import logging
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from tenure.clock import MICROSECOND, Clock
from tenure.definition.context import Progress
from tenure.definition.failure import MAX_TRACE, Failure
from tenure.errors import Cancelled
from tenure.execution.attempt import Attempt
from tenure.execution.outcome import Outcome, OutcomeKind
from tenure.execution.parent.child_pool import ChildPool, Spawn
from tenure.execution.parent.child_process import ChildProcess, ExitReport
from tenure.execution.parent.stop_rules import (
    FROZEN_AFTER,
    Blame,
    StopRequests,
    outcomes_of_exit,
    stop_reason,
    will_be_killed,
)
from tenure.execution.parent.workload import Durations, record_duration
from tenure.execution.protocol import Report
from tenure.execution.runner import Done, RecycleLimits, Source

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_MAX_ORDER_WAIT = 0.25  # seconds; orders that have waited longer in a child are withdrawn
_MAX_WAIT_BESIDE_IDLE = 0.05  # the same while another child has nothing to do
_EXIT_TIMEOUT = 0.5  # for a child that has closed its pipes: if it is dying, it ends at once
_NO_BLAME = Blame(0, frozen=False)


class ChildProcessRunner:
    """`size` children with `slots` jobs each."""

    def __init__(self, spawn: Spawn, size: int, slots: int, clock: Clock, limits: RecycleLimits | None = None) -> None:
        self.concurrency = 0  # until children are ready
        self.ticked: float | None = None
        self._source: Source
        self._done: Done
        self._pool = ChildPool(spawn, size, limits or RecycleLimits())
        self._slots = slots
        self._clock = clock
        self._tickets = count(1)
        self._durations: Durations = {}
        self._check_at = 0.0
        self._stop_now = False
        self._reload = False
        self._requests = StopRequests()
        self._progress: list[tuple[Any, Progress]] = []
        self._running: list[tuple[Attempt, float]] = []

    def serve(self, source: Source, done: Done) -> None:
        self._source, self._done = source, done
        wake_reader, wake_writer = socket.socketpair()
        wake_reader.setblocking(False)
        wake_writer.setblocking(False)
        self._pool.selector.register(wake_reader, selectors.EVENT_READ)
        self._source.on_arrival(lambda: _wake(wake_writer))
        try:
            while not (self._source.is_over() and not any(child.pending for child in self._pool.children)):
                self.ticked = time.monotonic()
                if not (self._stop_now or self._source.is_over()):
                    self._fill_pool()
                    self._order()
                self._wait_for_reports(wake_reader)
                self._check_children()
        finally:
            self.ticked = None
            self._shut_down()
            wake_reader.close()
            wake_writer.close()

    def stop_now(self) -> None:
        self._stop_now = True

    def reload(self) -> bool:
        self._reload = True
        return True

    def lose(self, tickets: Sequence[object]) -> None:
        self._requests.lose(tickets)

    def cancel(self, tickets: Sequence[object]) -> None:
        self._requests.cancel(tickets)

    def progress(self) -> Sequence[tuple[Any, Progress]]:
        return self._progress

    def running(self) -> Sequence[tuple[Attempt, float]]:
        return self._running

    def child_pids(self) -> Sequence[int]:
        return [child.pid for child in list(self._pool.children)]

    def _fill_pool(self) -> None:
        if self._reload:
            self._reload = False
            self._pool.replace_all()
        self._pool.fill()

    def _order(self) -> None:
        """Take attempts from the source for the children that have room, the emptiest child first."""
        durations = self._durations
        for child in sorted(self._pool.children, key=lambda each: len(each.pending)):
            if not (child.paused or child.will_be_killed) and child.workload.is_low(durations):
                has_room = partial(child.workload.add, durations)
                attempts = self._source.take_up_to(self._pool.jobs_left(child), has_room)
                if attempts:
                    child.add_orders({next(self._tickets): attempt for attempt in attempts})

    def _wait_for_reports(self, wake_reader: socket.socket) -> None:
        for child in self._pool.children:
            self._pool.send_orders(child)
        for key, _ in self._pool.selector.select(_POLL_SECONDS):
            if key.fileobj is wake_reader:
                wake_reader.recv(1 << 12)
            elif key.data in self._pool.children and key.fd == key.data.reports:
                self._read_reports(key.data)

    def _read_reports(self, child: ChildProcess) -> None:
        reports = child.read_reports()
        self._finish(child, reports)
        if reports:
            self._pool.on_report(child)
        self._source.resize(self._pool.capacity(self._slots))
        if child.closed:
            self._on_child_exit(child, {}, _NO_BLAME, child.wait_for_exit(_EXIT_TIMEOUT))

    def _finish(self, child: ChildProcess, reports: Sequence[Report]) -> None:
        if reports:
            child.paused = False  # a report on a withdrawn order counts too: the child has a free slot
        for report in reports:
            attempt = child.end_order(report.ticket)
            if attempt is not None:  # else the parent withdrew it at the moment it started
                record_duration(self._durations, attempt.envelope.job, report.outcome.seconds)
                self._done(attempt, report.outcome)

    def _check_children(self) -> None:
        """Every 50 ms: kill children whose jobs must stop, and withdraw the orders that wait behind slow jobs."""
        now = time.monotonic()
        if now < self._check_at:
            return
        self._check_at = now + _POLL_SECONDS
        self._requests.forget_old(now)
        self._progress = [item for child in self._pool.children for item in _progress(child)]
        leases_end = now + self._source.seconds_left()
        running: list[tuple[Attempt, float]] = []
        for child in list(self._pool.children):
            child.memory.set_leases_end(leases_end)
            self._read_reports(child)  # those that did not wake this process
            if child.closed:
                continue
            self._pool.check(child, now)
            child.raw_output.trim()
            ages = _ages(child, now)
            running += [(child.pending[ticket], now - age) for ticket, age in ages.items()]
            self._forward_cancels(child, ages, now)
            stops = self._stop_reasons(child, ages, now)
            # The child may start its next job between the ticket and the time of a slot, so they are read twice.
            if stops and stops == self._stop_reasons(child, _ages(child, now), now):
                memory = child.memory
                blame = Blame(memory.blocking_ticket(), frozen=now - memory.last_heartbeat() > FROZEN_AFTER)
                child.kill()
                self._on_child_exit(child, stops, blame, child.wait_for_exit(0))
            elif len(child.pending) > len(ages):
                self._check_waiting_orders(child, ages, now)
        self._running = running

    def _forward_cancels(self, child: ChildProcess, ages: Mapping[int, float], now: float) -> None:
        """Pass cancel requests on to a child, and note whether it will be killed soon."""
        child.will_be_killed = False
        for ticket, age in ages.items():
            attempt = child.pending[ticket]
            cancel_age = self._requests.cancel_age(attempt, now)
            if cancel_age is not None:
                child.request_cancel(ticket)
            child.will_be_killed = child.will_be_killed or will_be_killed(attempt, age, cancel_age=cancel_age)

    def _stop_reasons(self, child: ChildProcess, ages: Mapping[int, float], now: float) -> dict[int, OutcomeKind]:
        found = {}
        for ticket, age in ages.items():
            attempt = child.pending[ticket]
            cancel_age, lost = self._requests.cancel_age(attempt, now), self._requests.is_lost(attempt)
            found[ticket] = stop_reason(attempt, age, cancel_age=cancel_age, lost=lost, stopping=self._stop_now)
        return {ticket: kind for ticket, kind in found.items() if kind}

    def _check_waiting_orders(self, child: ChildProcess, ages: Mapping[int, float], now: float) -> None:
        """Withdraw orders if one has waited too long, is unwanted, or would be killed with its child."""
        waiting = [ticket for ticket in child.pending if ticket not in ages]
        longest = _MAX_WAIT_BESIDE_IDLE if self._pool.has_idle_child() else _MAX_ORDER_WAIT
        if now - child.ordered_at(waiting[0]) > longest:
            # If every job runs that long, or the child is stopped, it gets no orders until it reports something.
            child.paused = min(ages.values(), default=longest) >= longest
        elif not (child.will_be_killed or any(self._requests.is_unwanted(child.pending[ticket]) for ticket in waiting)):
            return
        self._withdraw(child)

    def _withdraw(self, child: ChildProcess) -> None:
        """Return the orders of a child that have not started to the source, except those that start at this moment."""
        child.memory.withdraw(max(child.pending))
        running = child.memory.running()
        self._finish(child, child.read_reports())  # a job whose slot is cleared by now has been reported
        waiting = [ticket for ticket in child.pending if ticket not in running]
        child.jobs -= len(waiting)
        self._return_unstarted([attempt for ticket in waiting if (attempt := child.end_order(ticket))])
        self._source.resize(self._pool.capacity(self._slots))

    def _return_unstarted(self, attempts: Sequence[Attempt]) -> None:
        """Put attempts that did not start back into the source; those lost or cancelled meanwhile end here."""
        kept: list[Attempt] = []
        for attempt in attempts:
            if self._requests.is_unwanted(attempt):
                kind: OutcomeKind = "lost" if self._requests.is_lost(attempt) else "cancelled"
                self._done(attempt, self._outcome(kind, attempt, 0.0))
            else:
                kept.append(attempt)
        self._source.put_back(kept)

    def _on_child_exit(self, child: ChildProcess, stops: Mapping[int, OutcomeKind], blame: Blame, how: str) -> None:
        """A child has ended: report an outcome for each job that it ran, and return the others to the source.

        `stops` says for which jobs the parent killed it; without any, the child died by itself. A child that gave up
        because its leases ended costs no job anything: this process was stopped, or had no time to run.
        """
        while reports := child.read_reports():  # it may have finished a job in its last moment
            self._finish(child, reports)
        ages = _ages(child, time.monotonic())
        if child.memory.gave_up() and not stops:
            stops = dict.fromkeys(ages, "interrupted")
        self._pool.remove(child)
        report = child.release(how)
        self._source.resize(self._pool.capacity(self._slots))
        self._return_unstarted([attempt for ticket, attempt in child.pending.items() if ticket not in ages])
        for ticket, kind in outcomes_of_exit(ages, stops, blame).items():
            attempt = child.pending[ticket]
            record_duration(self._durations, attempt.envelope.job, ages[ticket])
            if kind != "lost" and self._requests.is_cancelled(attempt):
                kind = "cancelled"  # after a cancel request every end counts as cancelled
            self._done(attempt, self._outcome(kind, attempt, ages[ticket], None if stops else report))
        if not (stops or ages):
            self._pool.on_idle_exit(child, report)
        elif not stops:
            logger.error("%s while it ran %d jobs", how, len(ages))

    def _outcome(
        self, kind: OutcomeKind, attempt: Attempt, seconds: float, report: ExitReport | None = None
    ) -> Outcome:
        now = self._clock.now()
        failure = None
        if kind == "timed_out":
            message = f"the attempt ignored its timeout of {attempt.timeout:g} s and its process was killed"
            failure = Failure(type="TimedOut", message=message, at=now, attempt=attempt.number)
        elif report is not None:
            trace = report.last_lines[-MAX_TRACE:] or None
            failure = Failure(type="Crashed", message=report.how, at=now, attempt=attempt.number, trace=trace)
        started = now - round(seconds * MICROSECOND)
        reason = Cancelled.reason if kind == "cancelled" else kind
        return Outcome(kind=kind, started=started, seconds=seconds, failure=failure, reason=reason)

    def _shut_down(self) -> None:
        """End all children: idle ones exit by themselves, the others are killed."""
        for child in list(self._pool.children):
            if child.pending:
                child.kill()
                stops: dict[int, OutcomeKind] = dict.fromkeys(child.pending, "interrupted")
                self._on_child_exit(child, stops, _NO_BLAME, child.wait_for_exit(0))
        self._pool.close()


def _ages(child: ChildProcess, now: float) -> dict[int, float]:
    """For how many seconds each job of a child has run that the child has not reported."""
    return {ticket: now - started for ticket, started in child.memory.running().items() if ticket in child.pending}


def _progress(child: ChildProcess) -> list[tuple[Any, Progress]]:
    found = child.memory.progress()
    return [(child.pending[ticket].ticket, progress) for ticket, progress in found.items() if ticket in child.pending]


def _wake(writer: socket.socket) -> None:
    with suppress(OSError):  # full: the runner wakes anyway; closed: it has ended
        writer.send(b".")
