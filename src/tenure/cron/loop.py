"""SchedulerLoop: calls a scheduler on time until it is stopped, and runs inline ticks in a thread beside it."""

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from tenure.backends.ledger import Note
from tenure.backends.records import JobRecord
from tenure.cron.publisher import TickPublisher, end_note
from tenure.cron.schedule import Schedule
from tenure.cron.scheduler import Scheduler
from tenure.errors import BackendError

logger = logging.getLogger(__name__)

_MIN_PAUSE = 0.001
_OUTAGE_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
_WRITE_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
_JOIN_POLL_SECONDS = 0.05


class SchedulerLoop:
    """A role beside a worker, or alone as `tenure cron work`; it survives outages and jumps of the clock."""

    def __init__(self, scheduler: Scheduler, inline: "InlineTickRunner") -> None:
        self._scheduler = scheduler
        self._inline = inline
        self._stopping = threading.Event()
        self._until = 0.0
        self._last_beat = time.monotonic()
        self.ready = threading.Event()

    def run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            pause, failures = self._beat(failures)
            self._stopping.wait(max(_MIN_PAUSE, pause))
        self._inline.finish(lambda: self._until)

    def stop(self, grace: float = 5.0) -> None:
        """Stop the beats; inline ticks get `grace` seconds to end, and a second call may shorten that."""
        self._until = time.monotonic() + grace
        self._stopping.set()

    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._last_beat

    def _beat(self, failures: int) -> tuple[float, int]:
        try:
            pause = self._scheduler.beat()
        except BackendError as error:
            level = logging.DEBUG if failures else logging.WARNING  # an outage is one line
            logger.log(level, "the scheduler could not reach its backend, trying again: %s", error)
            return _OUTAGE_PAUSES[min(failures, len(_OUTAGE_PAUSES) - 1)], failures + 1
        finally:
            self._last_beat = time.monotonic()
        if failures:
            logger.warning("the backend of the scheduler answers again")
        self.ready.set()
        return pause, 0


class InlineTickRunner:
    """Runs ticks in the scheduler's process, one after the other, for one attempt each.

    It has its own thread, so that a long run does not hold up the scheduler; the first tick starts it.
    """

    def __init__(self, publisher: TickPublisher) -> None:
        self._publisher = publisher
        self._waiting: SimpleQueue[tuple[Schedule, int] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._open: dict[str, None] = {}

    def submit(self, schedule: Schedule, tick: int) -> None:
        self._open[schedule.occurrence(tick).id or ""] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tenure-inline", daemon=True)
            self._thread.start()
        self._waiting.put((schedule, tick))

    def perform(self, schedule: Schedule, tick: int) -> None:
        """Run a tick in the calling thread, and record how it ended."""
        job = schedule.occurrence(tick).replace(max_retries=0)
        try:
            record = self._publisher.run(job)
            note = end_note(record)
        except Exception as error:  # the job could not be made
            record, note = None, Note(job.id or "", "failed", str(error))
        if note.state == "failed":
            logger.warning("schedule %r failed: %s", schedule.name, note.why)
        self._write(note, record)
        self._open.pop(note.id, None)

    def finish(self, until: Callable[[], float]) -> None:
        """Wait for the submitted ticks, at most until a monotonic time; note the rest as failed."""
        if self._thread is not None:
            self._waiting.put(None)
            while self._thread.is_alive() and time.monotonic() < until():
                self._thread.join(_JOIN_POLL_SECONDS)
        for id in list(self._open):
            self._write(Note(id, "failed", "the scheduler was stopped before it had ended"))

    def _run(self) -> None:
        while (each := self._waiting.get()) is not None:
            self.perform(*each)

    def _write(self, note: Note, record: JobRecord | None = None) -> None:
        for pause in _WRITE_PAUSES:
            try:
                self._publisher.end_inline(note, record)
                return
            except BackendError as error:
                logger.warning("the end of a tick could not be recorded, trying again: %s", error)
                time.sleep(pause)
