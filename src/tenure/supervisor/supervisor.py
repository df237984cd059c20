"""The supervisor: keeps a number of workers running, each in its own process, and passes signals on to them.

A worker that dies is replaced, with growing delays while workers die soon after their start. A reload starts each new
worker before it stops the old one, one slot at a time; if the new one fails, the old ones stay.
"""

import logging
import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from tenure.definition.retry import Backoff
from tenure.supervisor.probe_file import StateReporter
from tenure.supervisor.sd_notify import NotifySocket
from tenure.supervisor.signals import STOP_SIGNALS, SignalWaiter, terminal_was_closed

logger = logging.getLogger(__name__)

STABLE_SECONDS = 10.0  # a worker that was ready this long did not die of its start: the next one starts soon
RESTART_BACKOFF = Backoff(base=0.25, cap=30.0)
_HANDLED_SIGNALS = (*STOP_SIGNALS, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD)
_TICK_SECONDS = 1.0
_SETTLE_SECONDS = 5.0  # what a worker may take beyond its stop grace; one that takes longer hangs
_MAX_FAILED_STARTS = 5
_FINISHED = (0, 1)  # exit codes of a bounded worker that has finished; 1 means that jobs died

StartWorker = Callable[[], "WorkerProcess"]


class Supervisor:
    """`run` returns the highest exit code of the workers, as a shell counts it."""

    def __init__(self, start: StartWorker, count: int, notifier: StateReporter, *, bounded: bool) -> None:
        """`bounded` workers end by themselves, and are not replaced when they do."""
        self._start = start
        self._slots = [WorkerSlot() for _ in range(count)]
        self._notifier = notifier
        self._bounded = bounded
        self._stop_signals: list[int] = []
        self._outdated: set[WorkerProcess] = set()
        self._exit_code = 0
        self._reported: dict[str, str] = {}
        self._ping_at = 0.0

    def run(self) -> int:
        with SignalWaiter(_HANDLED_SIGNALS) as signals:
            while not self._is_over():
                now = time.monotonic()
                for slot in self._slots:
                    self._check(slot, now)
                self._continue_reload()
                self._report(now)
                descriptors = [worker.notifications.fileno() for worker in self._workers()]
                for number in signals.wait(self._seconds_until_next(now), descriptors):
                    self._handle_signal(number)
        return self._exit_code

    def _workers(self) -> Iterator["WorkerProcess"]:
        for slot in self._slots:
            yield from slot.workers()

    def _is_over(self) -> bool:
        stays_empty = all(slot.is_given_up or self._stop_signals for slot in self._slots)
        return stays_empty and not any(self._workers())

    def _needs_worker(self, slot: "WorkerSlot") -> bool:
        return not (slot.worker or slot.is_given_up or self._stop_signals)

    def _seconds_until_next(self, now: float) -> float:
        """How long there is nothing to do, unless a signal or a notification arrives."""
        moments = [worker.kill_at for worker in self._workers()]
        moments += [slot.start_at for slot in self._slots if self._needs_worker(slot)]
        tick = min(_TICK_SECONDS, self._notifier.watchdog / 2) if self._notifier.watchdog else _TICK_SECONDS
        return min([tick, *(moment - now for moment in moments)])

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._stop_signals.append(number)
            for worker in self._workers():
                worker.send(number)
        elif number == signal.SIGHUP and not terminal_was_closed():
            self._begin_reload()
        elif number != signal.SIGCHLD:
            self._stop(signal.SIGTERM if number == signal.SIGHUP else number)

    def _stop(self, number: int) -> None:
        self._notifier.notify(STOPPING=1, STATUS="stopping")
        at_once = number == signal.SIGQUIT or any(earlier in STOP_SIGNALS for earlier in self._stop_signals)
        self._stop_signals.append(number)
        for worker in self._workers():
            worker.stop(number, at_once=at_once)

    def _check(self, slot: "WorkerSlot", now: float) -> None:
        for worker in slot.workers():
            worker.receive()
            self._kill_if_stuck(worker, now)
        if slot.successor and (code := slot.successor.exit_code()) is not None and slot.worker:
            self._on_failed_reload(slot, slot.successor, code)
        if slot.worker and (code := slot.worker.exit_code()) is not None:
            self._on_exit(slot, slot.worker, code, now)
        if self._needs_worker(slot) and now >= slot.start_at:
            slot.worker = self._start_worker()
            slot.start_at = now + _TICK_SECONDS

    def _start_worker(self) -> "WorkerProcess | None":
        try:
            return self._start()
        except OSError as error:  # too many processes, no memory
            logger.warning("a worker could not be started: %s", error)
            return None

    def _kill_if_stuck(self, worker: "WorkerProcess", now: float) -> None:
        """Kill a worker that does not stop in time, or that makes no progress."""
        limit = self._notifier.watchdog
        if limit and worker.ready and now - worker.progress_at > limit:
            logger.error("worker %d has made no progress for %g s and is killed", worker.pid, limit)
            worker.kill_at, worker.progress_at = now, now
        if now >= worker.kill_at:
            worker.kill_at = math.inf
            worker.send(signal.SIGKILL)

    def _on_exit(self, slot: "WorkerSlot", dead: "WorkerProcess", code: int, now: float) -> None:
        dead.close()
        self._outdated.discard(dead)
        slot.promote_successor()
        if self._stop_signals or (self._bounded and code in _FINISHED):
            slot.is_given_up = slot.worker is None
            self._exit_code = max(self._exit_code, self._shell_code(code))
        elif dead.leaving:
            logger.info("worker %d %s and was replaced", dead.pid, _describe_exit(dead, code))
        elif slot.worker:
            logger.error("worker %d %s; its successor takes over", dead.pid, _describe_exit(dead, code))
        else:
            delay = slot.delay_start(dead, now)
            if slot.failed_starts >= _MAX_FAILED_STARTS and not any(each.is_ready() for each in self._slots):
                self._give_up(dead, code)
            else:
                logger.error("worker %d %s; another starts in %.1f s", dead.pid, _describe_exit(dead, code), delay)

    def _give_up(self, dead: "WorkerProcess", code: int) -> None:
        """No worker runs and none can start: stop, so that the process that started this one notices."""
        cause = f"gave up after {_MAX_FAILED_STARTS} failed starts: the last worker {_describe_exit(dead, code)}"
        logger.critical("%s", cause)
        self._exit_code = max(1, self._shell_code(code))
        self._stop(signal.SIGTERM)
        self._notifier.notify(STATUS=cause)

    def _begin_reload(self) -> None:
        if self._bounded:
            logger.warning("workers that end by themselves are not reloaded")
        elif not self._stop_signals:
            self._outdated = set(self._workers())
            self._notifier.notify(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
            self._reported.clear()

    def _continue_reload(self) -> None:
        """One slot at a time: start a new worker, and stop the old one when the new one is ready."""
        if self._stop_signals:
            return
        for slot in self._slots:
            if slot.worker and slot.successor and slot.successor.ready and not slot.successor.leaving:
                slot.worker.replace()
            elif slot.successor in self._outdated:
                slot.successor.replace()  # another reload began before it was ready
        if not any(slot.successor for slot in self._slots):
            for slot in self._slots:
                if slot.worker in self._outdated:
                    slot.successor = self._start_worker()
                    if not slot.successor:
                        self._outdated.clear()
                    return

    def _on_failed_reload(self, slot: "WorkerSlot", dead: "WorkerProcess", code: int) -> None:
        dead.close()
        slot.successor = None
        if dead in self._outdated:
            self._outdated.discard(dead)
        elif not self._stop_signals:
            logger.error("the reload failed, and the old workers stay: the new worker %s", _describe_exit(dead, code))
            self._outdated.clear()

    def _report(self, now: float) -> None:
        """Report to systemd, if it is there, how many workers are ready, and that this loop runs."""
        ready = sum(slot.is_ready() or slot.is_given_up for slot in self._slots)
        report = {"STATUS": f"{ready} of {len(self._slots)} workers are ready"}
        if ready == len(self._slots) and not self._outdated:
            report["READY"] = "1"
        if report != self._reported and not self._stop_signals:
            self._reported = report
            self._notifier.notify(**report)
        if self._notifier.watchdog and now >= self._ping_at:
            self._ping_at = now + self._notifier.watchdog / 2
            self._notifier.notify(WATCHDOG=1)

    def _shell_code(self, code: int) -> int:
        """As a shell counts it; a worker that our stop signal killed before it could handle it ended as it should."""
        if code >= 0:
            return code
        return 0 if -code in self._stop_signals else 128 - code


class WorkerSlot:
    """The place of one worker; during a reload its successor starts beside it."""

    def __init__(self) -> None:
        self.worker: WorkerProcess | None = None
        self.successor: WorkerProcess | None = None
        self.start_at = 0.0
        self.failed_starts = 0
        self.is_given_up = False
        self._early_exits = 0

    def workers(self) -> Iterator["WorkerProcess"]:
        yield from (worker for worker in (self.worker, self.successor) if worker)

    def is_ready(self) -> bool:
        return any(worker.ready for worker in self.workers())

    def promote_successor(self) -> None:
        """The worker has ended; its successor, if there is one, takes its place."""
        self.worker, self.successor = self.successor, None

    def delay_start(self, dead: "WorkerProcess", now: float) -> float:
        """Delay the next start, the longer the more workers in a row died early; returns the seconds."""
        if dead.ready_at is not None and now - dead.ready_at >= STABLE_SECONDS:
            self._early_exits = 0
        self.failed_starts = 0 if dead.ready else self.failed_starts + 1
        self._early_exits += 1
        delay = RESTART_BACKOFF.delay(self._early_exits)
        self.start_at = now + delay
        return delay


class WorkerProcess:
    """One worker process, and the state that it has reported."""

    def __init__(self, process: subprocess.Popen[bytes], notifications: NotifySocket) -> None:
        self._process = process
        self.notifications = notifications
        self.pid = process.pid
        self.ready_at: float | None = None
        self.progress_at = 0.0
        self.kill_at = math.inf
        self._stop_grace = 30.0
        self.leaving = False
        self.status = ""

    @property
    def ready(self) -> bool:
        return self.ready_at is not None

    def receive(self) -> None:
        """Read the notifications that have arrived."""
        now = time.monotonic()
        for fields in self.notifications.receive():
            self.status = fields.get("STATUS", self.status)
            if "READY" in fields or "WATCHDOG" in fields:
                self.ready_at, self.progress_at = self.ready_at or now, now
                self._stop_grace = float(fields.get("X_STOP_GRACE", self._stop_grace))
            if "RELOADING" in fields:  # it starts over in the same process, and that may fail
                self.ready_at = None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def replace(self) -> None:
        """Stop it, because its successor is ready."""
        if not self.leaving:
            self.leaving = True
            self.stop(signal.SIGTERM)

    def stop(self, number: int, *, at_once: bool = False) -> None:
        """Send it a signal to stop; it is killed if it does not stop in time."""
        self.send(number)
        grace = 0.0 if at_once else self._stop_grace
        self.kill_at = min(self.kill_at, time.monotonic() + grace + _SETTLE_SECONDS)

    def exit_code(self) -> int | None:
        """Negative for a signal; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        with suppress(OSError):
            self.receive()  # its last notification says why it ended
        self.notifications.close()


def _describe_exit(dead: WorkerProcess, code: int) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    when = "" if dead.ready else " before it was ready"
    return f"{how}{when}{f': {dead.status}' if dead.status else ''}"
