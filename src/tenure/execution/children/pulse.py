"""Pulse: tells the parent that a shared interpreter runs, and which job, if any, keeps its event loop from running."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tenure.execution.children.marks import Marks

_EVERY = 0.1
_BLOCKED = 0.25


class Pulse:
    """A thread of the child; a call into C that keeps the interpreter lock stops it, and that is what it shows."""

    def __init__(self, marks: Marks, *looks: Callable[[], None]) -> None:
        self._marks = marks
        self._looks = looks
        marks.pulse()
        threading.Thread(target=self._run, name="tenure-pulse", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_EVERY)
            self._marks.pulse()
            for look in self._looks:
                look()


class LoopWatch:
    """Looks at a loop from outside: one that has not come round for a while is blocked by the task it is at."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        marks: Marks,
        tickets: dict["asyncio.Task[None]", int],
        on_round: Callable[[], None],
    ) -> None:
        """`on_round` is called on the loop whenever it has come round."""
        self._loop = loop
        self._marks = marks
        self._tickets = tickets
        self._on_round = on_round
        self._came_round = time.monotonic()
        self._asked = False

    def look(self) -> None:
        if not self._asked:
            self._asked = True
            with suppress(RuntimeError):  # it is closed: the child is leaving
                self._loop.call_soon_threadsafe(self._come_round)
        if time.monotonic() - self._came_round > _BLOCKED:
            task = asyncio.current_task(self._loop)
            self._marks.blame(self._tickets.get(task, 0) if task else 0)

    def _come_round(self) -> None:
        self._came_round = time.monotonic()
        self._asked = False
        self._marks.blame(0)
        self._on_round()
