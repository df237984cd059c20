"""What backends share that tell when jobs end: how a thread waits for a signal, and how it polls without one."""

import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from tenure.backends.records import JobRecord
from tenure.events import END_STATES

# `wait(seconds, idle)` waits for a signal, at most so many seconds; False if only the wakeup ended it.
# `idle` is the time since the last news: a job ended, or a caller began to wait. A backend without signals polls more
# rarely as it grows.
EndWait = Callable[[float, float], bool]
_FIRST_POLL_SECONDS = 0.004
_LONGEST_POLL_SECONDS = 0.5
_POLLS_IN_IDLE_TIME = 20  # a job that took a second is found 25 ms after its end on average


class Wakeup:
    """Wakes a thread that waits for a descriptor; any thread may call `set`."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        return self._reader

    def set(self) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            return  # it is full, so the thread wakes up anyway

    def clear(self) -> None:
        try:
            while len(os.read(self._reader, 65536)) == 65536:
                continue
        except BlockingIOError:
            return

    def wait(self, seconds: float, descriptor: int | None = None) -> bool:
        """Wait until it is set or the descriptor has data; False if it was only set."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        return [ready for ready, _ in poll.poll(max(0.0, seconds) * 1000)] != [self._reader]

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


def poll_for_ends(wakeup: Wakeup, seconds: float, idle: float) -> bool:
    """An `EndWait` without signals."""
    pause = max(_FIRST_POLL_SECONDS, min(_LONGEST_POLL_SECONDS, idle / _POLLS_IN_IDLE_TIME))
    return wakeup.wait(min(seconds, pause))


@contextmanager
def polling(wakeup: Wakeup) -> Iterator[EndWait]:
    yield partial(poll_for_ends, wakeup)


class _Finder(Protocol):
    def find(self, id: str) -> JobRecord | None: ...


class PolledEnds:
    """Reads the record of each job, for backends without a `JobEnds` of their own."""

    def __init__(self, jobs: _Finder, *, knows_waiting_jobs: bool) -> None:
        """An archive beside a broker knows only jobs that have run: a job that it does not know may be waiting."""
        self._jobs = jobs
        self._knows_waiting_jobs = knows_waiting_jobs
        self.watch = polling

    def ended(self, ids: Sequence[str]) -> set[str]:
        return {id for id in ids if self._has_ended(self._jobs.find(id))}

    def _has_ended(self, record: JobRecord | None) -> bool:
        return self._knows_waiting_jobs if record is None else record.state in END_STATES
