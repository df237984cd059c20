"""Usage: what attempts take of their host."""

import sys
import time

from msgspec import structs

from tenure.execution.outcome import Outcome

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # not on Windows

    def peak_memory() -> int | None:
        """The most memory this process has held so far, in bytes, where the host tells."""
        return None

else:
    _UNIT = 1 if sys.platform == "darwin" else 1024

    def peak_memory() -> int | None:
        """The most memory this process has held so far, in bytes, where the host tells."""
        return getrusage(RUSAGE_SELF).ru_maxrss * _UNIT


_SHORT = 0.001  # seconds: asking the host takes microseconds, which are much beside a shorter attempt
_SAMPLE = 32


class Meter:
    """Measures the attempts of one thread: all of them, but of a row of short ones only every so many."""

    def __init__(self) -> None:
        self._unmeasured = _SAMPLE
        self._cpu: float | None = None

    def start(self) -> None:
        self._cpu = time.thread_time() if self._unmeasured >= _SAMPLE else None

    def stop(self, outcome: Outcome) -> None:
        self._unmeasured += 1
        if outcome.seconds >= _SHORT:
            self._unmeasured = _SAMPLE
        elif self._cpu is None:
            return
        else:
            self._unmeasured = 0
        if self._cpu is not None:
            structs.force_setattr(outcome, "cpu", time.thread_time() - self._cpu)
        structs.force_setattr(outcome, "memory", peak_memory())
