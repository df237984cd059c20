"""Progress of a command that takes longer than a second: a live line on stderr, only if that is a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from tenure.cli.output import LiveLine

_SHOWN_AFTER = 1.0  # seconds: a quick command shows nothing
_TICK_SECONDS = 0.5
_BAR_WIDTH = 30


class ProgressBar:
    """As `replayed ███████░░░ 1500 of 2100, 310/s`; without a bar if the total is not known."""

    def __init__(
        self,
        done: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        hidden: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.line = LiveLine(stream or sys.stderr)
        self.is_live = self.line.is_live and not hidden
        self._done = done
        self.total = total
        self._clock = clock
        self._started = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.is_live:
            self.line.clear()

    def show(self, count: int) -> None:
        passed = self._clock() - self._started
        if self.is_live and passed >= _SHOWN_AFTER:
            self.line.show(f"{_bar(self._done, count, self.total)}, {count / passed:.0f}/s")


@contextmanager
def busy_line(words: str, *, hidden: bool = False) -> Iterator[None]:
    """Show these words and how long it takes, for work that does not say how much of it is done."""
    line = LiveLine(sys.stderr)
    if hidden or not line.is_live:
        yield
        return
    ended, started = threading.Event(), time.monotonic()

    def show() -> None:
        if ended.wait(_SHOWN_AFTER):
            return
        with line:
            line.show(f"{words} …")
            while not ended.wait(_TICK_SECONDS):
                line.show(f"{words} … {time.monotonic() - started:.0f} s")

    thread = threading.Thread(target=show, name="tenure-busy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _bar(done: str, count: int, total: int | None) -> str:
    if not total:
        return f"{done} {count} …"
    full = min(_BAR_WIDTH, _BAR_WIDTH * count // total)
    return f"{done} {'█' * full}{'░' * (_BAR_WIDTH - full)} {count} of {total}"
