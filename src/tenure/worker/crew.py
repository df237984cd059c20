"""The crew of a supervisor: workers in processes of their own, and the seats they hold."""

import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from tenure.worker.notices import Notices
from tenure.worker.pauses import Pauses

A_WHILE = 10.0  # a worker that worked this long did not die of its start: the next one is started soon
_TO_SETTLE = 5.0  # what a worker may take beyond its stop grace; one that takes longer is stuck
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 30.0

Start = Callable[[], "Member"]


class Member:
    """One worker process, and what it has told about itself."""

    def __init__(self, process: subprocess.Popen[bytes], notices: Notices) -> None:
        self._process = process
        self.notices = notices
        self.pid = process.pid
        self.ready_at: float | None = None
        self.moved = 0.0
        self.kill_at = math.inf
        self._grace = 30.0
        self.leaving = False
        self.status = ""

    @property
    def ready(self) -> bool:
        return self.ready_at is not None

    def listen(self) -> None:
        now = time.monotonic()
        for notice in self.notices.heard():
            self.status = notice.get("STATUS", self.status)
            if "READY" in notice or "WATCHDOG" in notice:
                self.ready_at, self.moved = self.ready_at or now, now
                self._grace = float(notice.get("X_STOP_GRACE", self._grace))
            if "RELOADING" in notice:  # it starts over in the same process, and may fail to
                self.ready_at = None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def dismiss(self) -> None:
        """Have it stop when another has taken its place."""
        if not self.leaving:
            self.leaving = True
            self.stop(signal.SIGTERM)

    def stop(self, number: int, *, at_once: bool = False) -> None:
        """Send it a signal to stop; it is killed when it does not."""
        self.send(number)
        grace = 0.0 if at_once else self._grace
        self.kill_at = min(self.kill_at, time.monotonic() + grace + _TO_SETTLE)

    def ended(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        return self._process.poll()

    def close(self) -> None:
        with suppress(OSError):
            self.listen()  # its last words
        self.notices.close()


class Seat:
    """A place for one worker; while that is replaced, its successor gets ready beside it."""

    def __init__(self) -> None:
        self.member: Member | None = None
        self.successor: Member | None = None
        self.start_at = 0.0
        self.failed_starts = 0
        self.is_given_up = False
        self._pauses = Pauses(_FIRST_PAUSE, _LONGEST_PAUSE)

    def members(self) -> Iterator[Member]:
        yield from (member for member in (self.member, self.successor) if member)

    def is_ready(self) -> bool:
        return any(member.ready for member in self.members())

    def vacate(self) -> None:
        """The worker is gone; its successor, if there is one, moves up."""
        self.member, self.successor = self.successor, None

    def postpone(self, dead: Member, now: float) -> float:
        """Let the next worker wait, the longer the more often one died young; returns the seconds."""
        if dead.ready_at is not None and now - dead.ready_at >= A_WHILE:
            self._pauses.reset()
        self.failed_starts = 0 if dead.ready else self.failed_starts + 1
        pause = self._pauses.longer()
        self.start_at = now + pause
        return pause
