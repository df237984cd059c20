"""Runners whose jobs run in child processes: the parent feeds, watches, kills and replaces them.

The child's kind decides what one child does with its jobs: one at a time, on threads, or on an event loop.
"""

import logging
import selectors
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from tenure.clock import MICROSECOND, Clock
from tenure.definition.failure import MAX_TRACE, Failure
from tenure.definition.progress import Progress
from tenure.errors import Cancelled
from tenure.execution.attempt import Attempt
from tenure.execution.children.frames import Report
from tenure.execution.children.process import Child, Evidence
from tenure.execution.outcome import Kind, Outcome
from tenure.execution.runners.contract import Done, Source
from tenure.execution.runners.named import Named
from tenure.execution.runners.nursery import Nursery, Spawn
from tenure.execution.runners.sentences import FROZEN, Blame, fates, is_doomed, sentence
from tenure.execution.runners.wear import Wear

logger = logging.getLogger(__name__)

_TICK = 0.05
_AHEAD = 0.01  # seconds of work a child holds beyond what it is running: covers the way there and back
_MOST_AHEAD = 128
_STUCK = 0.25  # orders that have waited this long in a child are taken back
_SMOOTHING = 0.1
_CLOSED = 0.5  # for a child that has closed its pipes: its end follows at once, if it is dying
_NOBODY = Blame(0, frozen=False)


class ChildrenRunner:
    """`size` children with `slots` jobs each; started and fed from the thread that calls `serve`."""

    def __init__(self, spawn: Spawn, size: int, slots: int, clock: Clock, wear: Wear | None = None) -> None:
        self.concurrency = 0  # until children are ready
        self.ticked: float | None = None
        self._nursery = Nursery(spawn, size, wear or Wear())
        self._slots = slots
        self._clock = clock
        self._tickets = count(1)
        self._mean: float | None = None
        self._watch_at = 0.0
        self._stop_now = False
        self._reload = False
        self._lost = Named()
        self._asked = Named()
        self._progress: list[tuple[Any, Progress]] = []

    def serve(self, source: Source, done: Done) -> None:
        bell, button = socket.socketpair()
        bell.setblocking(False)
        button.setblocking(False)
        self._nursery.selector.register(bell, selectors.EVENT_READ)
        source.on_arrival(lambda: _press(button))
        try:
            while not (source.is_over() and not any(child.pending for child in self._nursery.children)):
                self.ticked = time.monotonic()
                if not (self._stop_now or source.is_over()):
                    self._keep_full()
                    self._feed(source)
                self._listen(bell, source, done)
                self._watch(source, done)
        finally:
            self.ticked = None
            self._end(source, done)
            bell.close()
            button.close()

    def stop_now(self) -> None:
        self._stop_now = True

    def reload(self) -> bool:
        self._reload = True
        return True

    def lose(self, tickets: Sequence[object]) -> None:
        """The leases of these attempts were lost: whoever runs them must stop."""
        self._lost.add(tickets)

    def cancel(self, tickets: Sequence[object]) -> None:
        self._asked.add(tickets)

    def progress(self) -> Sequence[tuple[Any, Progress]]:
        return self._progress

    def _keep_full(self) -> None:
        if self._reload:
            self._reload = False
            self._nursery.refresh()
        self._nursery.keep_full()

    def _feed(self, source: Source) -> None:
        ahead = 0 if self._mean is None else min(_MOST_AHEAD, int(self._slots * _AHEAD / max(self._mean, 1e-6)))
        for child in sorted(self._nursery.children, key=lambda each: len(each.pending)):
            room = self._slots + ahead - len(child.pending)
            if room * 2 > ahead and not (child.paused or child.doomed):
                attempts = source.take_up_to(min(room, self._nursery.room(child)))
                if attempts:
                    child.give({next(self._tickets): attempt for attempt in attempts})

    def _listen(self, bell: socket.socket, source: Source, done: Done) -> None:
        for child in self._nursery.children:
            self._nursery.send(child)
        for key, _ in self._nursery.selector.select(_TICK):
            if key.fileobj is bell:
                bell.recv(1 << 12)
            elif key.data in self._nursery.children and key.fd == key.data.reports:
                self._hear(key.data, source, done)

    def _hear(self, child: Child, source: Source, done: Done) -> None:
        reports = child.heard()
        self._take_in(child, reports, done)
        if reports:
            self._nursery.succeeded()
            self._nursery.weigh(child)
        source.resize(self._nursery.ready() * self._slots)
        if child.silent:
            self._lay_to_rest(child, {}, _NOBODY, child.end(_CLOSED), source, done)

    def _take_in(self, child: Child, reports: Iterable[Report], done: Done) -> None:
        for report in reports:
            attempt = child.pending.pop(report.ticket, None)
            if attempt is not None:  # else it was withdrawn in the very moment it started
                seconds = report.outcome.seconds
                self._mean = seconds if self._mean is None else self._mean + _SMOOTHING * (seconds - self._mean)
                child.paused = False
                done(attempt, report.outcome)

    def _watch(self, source: Source, done: Done) -> None:
        """Stop what is past its deadline or lost its lease, and free the orders that wait behind slow jobs."""
        now = time.monotonic()
        if now < self._watch_at:
            return
        self._watch_at = now + _TICK
        self._lost.forget_old(now)
        self._asked.forget_old(now)
        self._progress = [item for child in self._nursery.children for item in _progress(child)]
        for child in list(self._nursery.children):
            self._nursery.look_after(child, now)
            ages = _ages(child, now)
            self._pass_on(child, ages, now)
            sentences = self._sentences(child, ages, now)
            if sentences and sentences == self._sentences(child, _ages(child, now), now):  # marks may be half-written
                blame = Blame(child.marks.blamed(), frozen=now - child.marks.last_pulse() > FROZEN)
                child.kill()
                self._lay_to_rest(child, sentences, blame, child.end(0), source, done)
            elif len(child.pending) > len(ages):
                self._look_at_waiting(child, ages, now, source, done)

    def _pass_on(self, child: Child, ages: Mapping[int, float], now: float) -> None:
        """Tell a child which of its jobs somebody wants cancelled, and note whether it will be killed soon."""
        child.doomed = False
        for ticket, age in ages.items():
            attempt = child.pending[ticket]
            asked = self._asked.age(attempt.ticket, now)
            if asked is not None:
                child.ask(ticket)
            child.doomed = child.doomed or is_doomed(attempt, age, asked=asked)

    def _sentences(self, child: Child, ages: Mapping[int, float], now: float) -> dict[int, Kind]:
        found = {}
        for ticket, age in ages.items():
            attempt = child.pending[ticket]
            asked, lost = self._asked.age(attempt.ticket, now), attempt.ticket in self._lost
            found[ticket] = sentence(attempt, age, asked=asked, lost=lost, stopping=self._stop_now)
        return {ticket: kind for ticket, kind in found.items() if kind}

    def _is_unwanted(self, attempt: Attempt) -> bool:
        return attempt.ticket in self._lost or attempt.ticket in self._asked

    def _look_at_waiting(self, child: Child, ages: Mapping[int, float], now: float, source: Source, done: Done) -> None:
        """Take back the orders that waited too long, are unwanted, or would be killed with their child."""
        waiting = [ticket for ticket in child.pending if ticket not in ages]
        if now - child.given_at(waiting[0]) > _STUCK:
            child.paused = min(ages.values(), default=_STUCK) >= _STUCK  # nothing starts there until something ends
        elif not (child.doomed or any(self._is_unwanted(child.pending[ticket]) for ticket in waiting)):
            return
        self._withdraw(child, source, done)

    def _withdraw(self, child: Child, source: Source, done: Done) -> None:
        """Give orders that have not started back to the source, unless they start in this very moment."""
        child.marks.withdraw(max(child.pending))
        running = child.marks.running()
        self._take_in(child, child.heard(), done)  # what is marked no more has been reported
        waiting = [ticket for ticket in child.pending if ticket not in running]
        child.jobs -= len(waiting)
        self._give_back([child.pending.pop(ticket) for ticket in waiting], source, done)

    def _give_back(self, attempts: Sequence[Attempt], source: Source, done: Done) -> None:
        """Attempts that did not start: what lost its lease or was cancelled meanwhile has nowhere to go back to."""
        kept: list[Attempt] = []
        for attempt in attempts:
            if self._is_unwanted(attempt):
                kind: Kind = "lost" if attempt.ticket in self._lost else "cancelled"
                done(attempt, self._outcome(kind, attempt, 0.0))
            else:
                kept.append(attempt)
        source.put_back(kept)

    def _lay_to_rest(
        self, child: Child, sentences: Mapping[int, Kind], blame: Blame, how: str, source: Source, done: Done
    ) -> None:
        """A child is gone: what it ran meets its fate, the rest goes back."""
        while reports := child.heard():  # it may have finished something in its last moment
            self._take_in(child, reports, done)
        now = time.monotonic()
        ages = _ages(child, now)
        self._nursery.forget(child)
        evidence = child.bury(how)
        source.resize(self._nursery.ready() * self._slots)
        self._give_back([attempt for ticket, attempt in child.pending.items() if ticket not in ages], source, done)
        for ticket, kind in fates(ages, sentences, blame).items():
            attempt = child.pending[ticket]
            if kind != "lost" and attempt.ticket in self._asked:
                kind = "cancelled"  # however it ended, somebody wanted it to
            done(attempt, self._outcome(kind, attempt, ages[ticket], None if sentences else evidence))
        if not (sentences or ages):
            self._nursery.died(child, evidence)
        elif not sentences:
            logger.error("%s while it ran %d jobs", how, len(ages))

    def _outcome(self, kind: Kind, attempt: Attempt, seconds: float, evidence: Evidence | None = None) -> Outcome:
        now = self._clock.now()
        failure = None
        if kind == "timed_out":
            limit = f"the attempt ignored its timeout of {attempt.timeout:g} s and its process was killed"
            failure = Failure(type="TimedOut", message=limit, at=now, attempt=attempt.number)
        elif evidence is not None:
            said = evidence.said[-MAX_TRACE:] or None
            failure = Failure(type="Crashed", message=evidence.how, at=now, attempt=attempt.number, trace=said)
        started = now - round(seconds * MICROSECOND)
        reason = Cancelled.reason if kind == "cancelled" else kind
        return Outcome(kind=kind, started=started, seconds=seconds, failure=failure, reason=reason)

    def _end(self, source: Source, done: Done) -> None:
        """No child outlives the runner: the idle ones leave by themselves, the others are killed."""
        for child in list(self._nursery.children):
            if child.pending:
                child.kill()
                sentences: dict[int, Kind] = dict.fromkeys(child.pending, "interrupted")
                self._lay_to_rest(child, sentences, _NOBODY, child.end(0), source, done)
        self._nursery.dismiss()


def _ages(child: Child, now: float) -> dict[int, float]:
    """How long each job of a child has been running that has not been reported."""
    return {ticket: now - started for ticket, started in child.marks.running().items() if ticket in child.pending}


def _progress(child: Child) -> list[tuple[Any, Progress]]:
    told = child.marks.progress()
    return [(child.pending[ticket].ticket, progress) for ticket, progress in told.items() if ticket in child.pending]


def _press(button: socket.socket) -> None:
    with suppress(OSError):  # full: it rings already; closed: nobody listens any more
        button.send(b".")
