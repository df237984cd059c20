"""Runners whose jobs run in child processes: the parent feeds, watches, kills and replaces them.

The child's kind decides what one child does with its jobs: one at a time, on threads, or on an event loop.
"""

import logging
import os
import selectors
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from tenure.clock import Clock
from tenure.definition.failure import Failure
from tenure.errors import TenureError
from tenure.execution.attempt import Attempt
from tenure.execution.children.process import Child
from tenure.execution.outcome import Kind, Outcome
from tenure.execution.runners.contract import Done, Source

logger = logging.getLogger(__name__)

_TICK = 0.05
_HARD_GRACE = 1.0  # the soft deadline comes first; a child that is still at it this much later is killed
_AHEAD = 0.01  # seconds of work a child holds beyond what it is running: covers the way there and back
_MOST_AHEAD = 128
_STUCK = 0.25  # orders behind a job that takes this long are given to others
_SMOOTHING = 0.1
_MOST_FAILED_STARTS = 5

Spawn = Callable[[], Child]


class ChildrenRunner:
    """`size` children with `slots` jobs each; started and fed from the thread that calls `serve`."""

    def __init__(self, spawn: Spawn, size: int, slots: int, clock: Clock) -> None:
        self.concurrency = 0  # until children are ready
        self._spawn = spawn
        self._size = size
        self._slots = slots
        self._clock = clock
        self._tickets = count(1)
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._mean: float | None = None
        self._failed_starts = 0
        self._start_after = 0.0
        self._stop_now = False
        self._lost: set[int] = set()

    def serve(self, source: Source, done: Done) -> None:
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_in, False)
        os.set_blocking(wake_out, False)
        self._selector.register(wake_in, selectors.EVENT_READ)
        source.on_arrival(lambda: _poke(wake_out))
        try:
            while not (source.is_over() and not any(child.pending for child in self._children)):
                self._keep_full(source)
                self._feed(source)
                self._listen(source, done, wake_in)
                self._watch(source, done)
        finally:
            self._end(source, done)
            os.close(wake_in)
            os.close(wake_out)

    def stop_now(self) -> None:
        self._stop_now = True

    def lose(self, tickets: Sequence[object]) -> None:
        """The leases of these attempts were lost: whoever runs them must stop."""
        self._lost.update(id(ticket) for ticket in tickets)

    def _keep_full(self, source: Source) -> None:
        """Start children until there are enough; slower and slower while they die before they are ready."""
        while len(self._children) < self._size and time.monotonic() >= self._start_after and not source.is_over():
            child = self._spawn()
            self._children.append(child)
            self._selector.register(child.reports, selectors.EVENT_READ, child)
            self._selector.register(child.errors, selectors.EVENT_READ, child)

    def _feed(self, source: Source) -> None:
        ahead = 0 if self._mean is None else min(_MOST_AHEAD, int(self._slots * _AHEAD / max(self._mean, 1e-6)))
        for child in sorted(self._children, key=lambda each: len(each.pending)):
            room = self._slots + ahead - len(child.pending)
            if child.ready and not child.closing and room * 2 > ahead:
                attempts = source.take_up_to(room)
                if attempts:
                    child.give({next(self._tickets): attempt for attempt in attempts})

    def _listen(self, source: Source, done: Done, wake: int) -> None:
        for child in self._children:
            self._await_room(child)
        for key, _ in self._selector.select(_TICK):
            if key.fd == wake:
                _drain(wake)
            elif key.data not in self._children or key.fd == key.data.orders:
                continue  # it died a moment ago, or there is room in its pipe and the next round sends
            elif key.fd == key.data.errors:
                self._pass_on(key.data)
            else:
                self._hear(key.data, source, done)

    def _await_room(self, child: Child) -> None:
        """Have the selector tell when a full pipe has room again."""
        full, waiting = child.send(), child.orders in self._selector.get_map()
        if full and not waiting:
            self._selector.register(child.orders, selectors.EVENT_WRITE, child)
        elif waiting and not full:
            self._selector.unregister(child.orders)

    def _hear(self, child: Child, source: Source, done: Done) -> None:
        reports = child.heard()
        if reports is None:
            self._died(child, source, done)
            return
        if child.ready:
            self._failed_starts = 0
            source.resize(sum(each.ready for each in self._children) * self._slots)
        for report in reports:
            attempt = child.pending.pop(report.ticket, None)
            if attempt is not None:  # else it was withdrawn in the very moment it started
                seconds = report.outcome.seconds
                self._mean = seconds if self._mean is None else self._mean + _SMOOTHING * (seconds - self._mean)
                done(attempt, report.outcome)

    def _pass_on(self, child: Child) -> None:
        data = child.said()
        if data:
            sys.stderr.write(data.decode("utf-8", "replace"))
        else:
            self._selector.unregister(child.errors)

    def _watch(self, source: Source, done: Done) -> None:
        """Stop what is past its deadline or lost its lease, and free the orders that wait behind slow jobs."""
        now = time.monotonic()
        for child in list(self._children):
            running = {t: s for t, s in child.marks.running().items() if t in child.pending}
            verdicts = {t: self._sentence(child.pending[t], now - started) for t, started in running.items()}
            if any(verdicts.values()):
                self._kill(child, {t: kind for t, kind in verdicts.items() if kind}, source, done)
            elif len(child.pending) > len(running) and running and now - min(running.values()) > _STUCK:
                self._withdraw(child, source)

    def _sentence(self, attempt: Attempt, age: float) -> Kind | None:
        if id(attempt.ticket) in self._lost:
            return "lost"
        if self._stop_now:
            return "interrupted"
        return "timed_out" if attempt.timeout and age > attempt.timeout + _HARD_GRACE else None

    def _withdraw(self, child: Child, source: Source) -> None:
        """Give orders behind a slow job back to the source, unless they start in this very moment."""
        child.marks.withdraw(max(child.pending))
        running = child.marks.running()
        waiting = [ticket for ticket in child.pending if ticket not in running]
        source.put_back([child.pending.pop(ticket) for ticket in waiting])

    def _kill(self, child: Child, sentences: Mapping[int, Kind], source: Source, done: Done) -> None:
        child.kill()
        while (reports := child.heard()) is not None:  # it may have finished something in its last moment
            for report in reports:
                if attempt := child.pending.pop(report.ticket, None):
                    done(attempt, report.outcome)
            if not reports:
                time.sleep(0.001)
        running = child.marks.running()
        self._forget(child)
        child.bury()
        self._conclude(child, running, sentences, "", source, done)

    def _died(self, child: Child, source: Source, done: Done) -> None:
        running = child.marks.running()
        self._forget(child)
        evidence = child.bury()
        if not child.ready:
            self._failed_to_start(evidence)
        elif child.pending:
            logger.error("%s", evidence)
        self._conclude(child, running, {}, evidence, source, done)

    def _conclude(
        self,
        child: Child,
        running: Mapping[int, float],
        sentences: Mapping[int, Kind],
        evidence: str,
        source: Source,
        done: Done,
    ) -> None:
        """What ran is sentenced, crashed, or (when a neighbour may have done it) suspect; the rest goes back."""
        ran = [ticket for ticket in child.pending if ticket in running]
        source.put_back([attempt for ticket, attempt in child.pending.items() if ticket not in running])
        for ticket in ran:
            kind = sentences.get(ticket) or ("neighbour" if sentences else "crashed" if len(ran) == 1 else "suspect")
            seconds = time.monotonic() - running[ticket]
            attempt = child.pending[ticket]
            self._lost.discard(id(attempt.ticket))
            done(attempt, self._outcome(kind, attempt, seconds, evidence))
        child.pending.clear()

    def _outcome(self, kind: Kind, attempt: Attempt, seconds: float, evidence: str) -> Outcome:
        now = self._clock.now()
        failure = None
        if kind == "timed_out":
            limit = f"the attempt ignored its timeout of {attempt.timeout:g} s and its process was killed"
            failure = Failure(type="TimedOut", message=limit, at=now, attempt=attempt.number)
        elif kind in ("crashed", "suspect"):
            failure = Failure(type="Crashed", message=evidence, at=now, attempt=attempt.number)
        return Outcome(kind=kind, started=now, seconds=seconds, failure=failure, reason=kind)

    def _failed_to_start(self, evidence: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MOST_FAILED_STARTS:
            raise TenureError(f"{self._failed_starts} children in a row died before they were ready: {evidence}")
        logger.error("a child died before it was ready: %s", evidence)
        self._start_after = time.monotonic() + 0.1 * 2**self._failed_starts

    def _forget(self, child: Child) -> None:
        self._children.remove(child)
        for descriptor in (child.reports, child.errors, child.orders):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def _end(self, source: Source, done: Done) -> None:
        """No child outlives the runner: the idle ones leave by themselves, the others are killed."""
        for child in list(self._children):
            if child.pending:
                self._kill(child, dict.fromkeys(child.pending, "interrupted"), source, done)
            else:
                self._forget(child)
                child.retire()
                child.bury()


def _poke(descriptor: int) -> None:
    try:
        os.write(descriptor, b".")
    except (BlockingIOError, OSError):
        return


def _drain(descriptor: int) -> None:
    try:
        os.read(descriptor, 1 << 12)
    except BlockingIOError:
        return
