"""The supervisor: keeps a number of workers alive, each in a process of its own, and passes on what they are told.

A worker that dies is replaced, ever more slowly while it dies young. A reload starts each new worker before the old one
is told to go, one seat at a time; when the new one fails, the old ones stay.
"""

import logging
import math
import signal
import time
from collections.abc import Iterator

from tenure.worker.crew import Member, Seat, Start
from tenure.worker.notices import Notifier
from tenure.worker.wakeups import Wakeups, terminal_is_gone

logger = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_HEARD = (*STOPPING, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD)
_TICK = 1.0
_MOST_FAILED_STARTS = 5
_OVER = (0, 1)  # a bounded worker has done what it should; 1 says that jobs died


class Supervisor:
    """`run` returns the worst exit code, as a shell counts it."""

    def __init__(self, start: Start, count: int, notifier: Notifier, *, bounded: bool) -> None:
        """`bounded` workers end by themselves, and are not replaced when they do."""
        self._start = start
        self._seats = [Seat() for _ in range(count)]
        self._notifier = notifier
        self._bounded = bounded
        self._told: list[int] = []
        self._outdated: set[Member] = set()
        self._worst = 0
        self._said: dict[str, str] = {}
        self._ping_at = 0.0

    def run(self) -> int:
        with Wakeups(_HEARD) as wakeups:
            while not self._is_over():
                now = time.monotonic()
                for seat in self._seats:
                    self._tend(seat, now)
                self._roll()
                self._report(now)
                descriptors = [member.notices.fileno() for member in self._members()]
                for number in wakeups.wait(self._until(now), descriptors):
                    self._obey(number)
        return self._worst

    def _members(self) -> Iterator[Member]:
        for seat in self._seats:
            yield from seat.members()

    def _is_over(self) -> bool:
        vacant = all(seat.is_given_up or self._told for seat in self._seats)
        return vacant and not any(self._members())

    def _is_vacant(self, seat: Seat) -> bool:
        return not (seat.member or seat.is_given_up or self._told)

    def _until(self, now: float) -> float:
        """How long nothing will have to be done, unless something happens."""
        moments = [member.kill_at for member in self._members()]
        moments += [seat.start_at for seat in self._seats if self._is_vacant(seat)]
        pace = min(_TICK, self._notifier.watchdog / 2) if self._notifier.watchdog else _TICK
        return min([pace, *(moment - now for moment in moments)])

    def _obey(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._told.append(number)
            for member in self._members():
                member.send(number)
        elif number == signal.SIGHUP and not terminal_is_gone():
            self._reload()
        elif number != signal.SIGCHLD:
            self._stop(signal.SIGTERM if number == signal.SIGHUP else number)

    def _stop(self, number: int) -> None:
        self._notifier.tell(STOPPING=1, STATUS="stopping")
        at_once = number == signal.SIGQUIT or any(told in STOPPING for told in self._told)
        self._told.append(number)
        for member in self._members():
            member.stop(number, at_once=at_once)

    def _tend(self, seat: Seat, now: float) -> None:
        for member in seat.members():
            member.listen()
            self._watch(member, now)
        if seat.successor and (code := seat.successor.ended()) is not None and seat.member:
            self._reload_failed(seat, seat.successor, code)
        if seat.member and (code := seat.member.ended()) is not None:
            self._bury(seat, seat.member, code, now)
        if self._is_vacant(seat) and now >= seat.start_at:
            seat.member = self._recruit()
            seat.start_at = now + _TICK

    def _recruit(self) -> Member | None:
        try:
            return self._start()
        except OSError as error:  # too many processes, no memory
            logger.warning("a worker could not be started: %s", error)
            return None

    def _watch(self, member: Member, now: float) -> None:
        """Kill what does not stop, and what has stopped moving."""
        limit = self._notifier.watchdog
        if limit and member.ready and now - member.moved > limit:
            logger.error("worker %d has made no progress for %g s and is killed", member.pid, limit)
            member.kill_at, member.moved = now, now
        if now >= member.kill_at:
            member.kill_at = math.inf
            member.send(signal.SIGKILL)

    def _bury(self, seat: Seat, dead: Member, code: int, now: float) -> None:
        dead.close()
        self._outdated.discard(dead)
        seat.vacate()
        if self._told or (self._bounded and code in _OVER):
            seat.is_given_up = seat.member is None
            self._worst = max(self._worst, self._exit_code(code))
        elif dead.leaving:
            logger.info("worker %d %s and was replaced", dead.pid, _how(dead, code))
        elif seat.member:
            logger.error("worker %d %s; its successor takes over", dead.pid, _how(dead, code))
        else:
            pause = seat.postpone(dead, now)
            if seat.failed_starts >= _MOST_FAILED_STARTS and not any(each.is_ready() for each in self._seats):
                self._give_up(dead, code)
            else:
                logger.error("worker %d %s; another starts in %.1f s", dead.pid, _how(dead, code), pause)

    def _give_up(self, dead: Member, code: int) -> None:
        """Nobody works, and nobody will: whoever started us must know."""
        cause = f"gave up after {_MOST_FAILED_STARTS} failed starts: the last worker {_how(dead, code)}"
        logger.critical("%s", cause)
        self._worst = max(1, self._exit_code(code))
        self._stop(signal.SIGTERM)
        self._notifier.tell(STATUS=cause)

    def _reload(self) -> None:
        if self._bounded:
            logger.warning("workers that end by themselves are not reloaded")
        elif not self._told:
            self._outdated = set(self._members())
            self._notifier.tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
            self._said.clear()

    def _roll(self) -> None:
        """One seat at a time: a new worker, ready, before the old one is told to go."""
        if self._told:
            return
        for seat in self._seats:
            if seat.member and seat.successor and seat.successor.ready and not seat.successor.leaving:
                seat.member.dismiss()
            elif seat.successor in self._outdated:
                seat.successor.dismiss()  # there was another reload before it was of use
        if not any(seat.successor for seat in self._seats):
            for seat in self._seats:
                if seat.member in self._outdated:
                    seat.successor = self._recruit()
                    if not seat.successor:
                        self._outdated.clear()
                    return

    def _reload_failed(self, seat: Seat, dead: Member, code: int) -> None:
        dead.close()
        seat.successor = None
        if dead in self._outdated:
            self._outdated.discard(dead)
        elif not self._told:
            logger.error("the reload failed, and the old workers stay: the new worker %s", _how(dead, code))
            self._outdated.clear()

    def _report(self, now: float) -> None:
        """Tell systemd, if it is there, how many are ready; and that this loop goes round."""
        ready = sum(seat.is_ready() or seat.is_given_up for seat in self._seats)
        said = {"STATUS": f"{ready} of {len(self._seats)} workers are ready"}
        if ready == len(self._seats) and not self._outdated:
            said["READY"] = "1"
        if said != self._said and not self._told:
            self._said = said
            self._notifier.tell(**said)
        if self._notifier.watchdog and now >= self._ping_at:
            self._ping_at = now + self._notifier.watchdog / 2
            self._notifier.tell(WATCHDOG=1)

    def _exit_code(self, code: int) -> int:
        """As a shell counts it; a worker that was stopped before it could listen ended as it was told."""
        if code >= 0:
            return code
        return 0 if -code in self._told else 128 - code


def _how(dead: Member, code: int) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    when = "" if dead.ready else " before it was ready"
    return f"{how}{when}{f': {dead.status}' if dead.status else ''}"
