"""Inline: ticks that run in the scheduler itself, one after the other, for one attempt each."""

import logging
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

from tenure.backends.ledger import Note, TickRecord
from tenure.cron.desk import Desk
from tenure.cron.outcomes import ending
from tenure.cron.schedule import Schedule
from tenure.errors import BackendError

logger = logging.getLogger(__name__)

Write = Callable[[Sequence[Note]], list[TickRecord]]
_LOOK = 0.05
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)


class Inline:
    """A thread of its own, so that a long run keeps nothing else waiting; it begins with the first."""

    def __init__(self, desk: Desk, note: Write) -> None:
        self._desk = desk
        self._note = note
        self._waiting: SimpleQueue[tuple[Schedule, int] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._open: dict[str, None] = {}

    def submit(self, schedule: Schedule, tick: int) -> None:
        self._open[schedule.occurrence(tick).id or ""] = None
        if self._thread is None:
            self._thread = Thread(target=self._run, name="tenure-inline", daemon=True)
            self._thread.start()
        self._waiting.put((schedule, tick))

    def perform(self, schedule: Schedule, tick: int) -> Note:
        """Run it in this thread, and write down how it ended."""
        job = schedule.occurrence(tick).replace(max_retries=0)
        try:
            self._desk.run(job)
            note = Note(job.id or "", "succeeded")
        except Exception as error:
            logger.warning("schedule %r failed: %s", schedule.name, error)
            note = Note(job.id or "", "failed", str(error))
        self._write(note)
        self._open.pop(note.id, None)
        return note

    def finish(self, until: Callable[[], float]) -> None:
        """Wait for what was submitted, at most until a monotonic time; what is left has failed, and is noted so."""
        if self._thread is not None:
            self._waiting.put(None)
            while self._thread.is_alive() and time.monotonic() < until():
                self._thread.join(_LOOK)
        for id in list(self._open):
            self._write(Note(id, "failed", "the scheduler was stopped before it had ended"))

    def _run(self) -> None:
        while (each := self._waiting.get()) is not None:
            self.perform(*each)

    def _write(self, note: Note) -> None:
        for pause in _PAUSES:
            try:
                for record in self._note([note]):
                    if event := ending(record):
                        self._desk.tell(event)
                return
            except BackendError as error:
                logger.warning("the end of a tick could not be written down, trying again: %s", error)
                time.sleep(pause)
