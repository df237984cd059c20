"""TickRecorder: records in the ledger how the jobs of ticks ended, and releases the ticks that wait for them."""

import logging
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from tenure.backends.ledger import Ledger, Note
from tenure.cron.publisher import end_event
from tenure.cron.schedule import is_tick_id
from tenure.errors import BackendError, TenureError
from tenure.events import Event, Listeners, Settled, Settlement, Status

logger = logging.getLogger(__name__)

_RETRY_PAUSE = 1.0
_TRIES_AT_STOP = 3
_SUCCEEDED = (Status.ACKED, Status.SKIPPED_IDEMPOTENT)
_FAILED = (Status.DEAD_LETTERED, Status.REJECTED, Status.CANCELLED, Status.EXPIRED)


class TickRecorder:
    """A role beside a worker; for jobs without a schedule it only reads the id."""

    def __init__(self, ledger: Ledger, listeners: Listeners, release: Callable[[], None]) -> None:
        """`release` follows up the ticks that wait for others."""
        self._ledger = ledger
        self._listeners = listeners
        self._release = release
        self._waiting: SimpleQueue[list[Note] | None] = SimpleQueue()
        self._stopping = False
        listeners.add(self._on_event)

    def run(self) -> None:
        while (notes := self._waiting.get()) is not None:
            self._record(notes)
        self._listeners.remove(self._on_event)

    def stop(self) -> None:
        """Record what is waiting, then end."""
        self._stopping = True
        self._waiting.put(None)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Settled):
            notes = [note for each in event.settlements if is_tick_id(each.id) and (note := settlement_note(each))]
            if notes:
                self._waiting.put(notes)

    def _record(self, notes: Sequence[Note]) -> None:
        """Record the notes; the schedulers find out a little later what could not be recorded here."""
        tries = 0
        while not (self._stopping and tries >= _TRIES_AT_STOP):
            try:
                changed = self._ledger.note(notes)
                break
            except BackendError as error:
                tries += 1
                level = logging.DEBUG if tries > 1 else logging.WARNING  # an outage is one line
                logger.log(level, "the ends of %d ticks could not be recorded, trying again: %s", len(notes), error)
                time.sleep(_RETRY_PAUSE)
        else:
            return
        for record in changed:
            if event := end_event(record):
                self._listeners.emit(event)
        if changed:
            self._release_waiting()

    def _release_waiting(self) -> None:
        try:
            self._release()
        except TenureError as error:
            logger.warning("ticks that wait for others are left to the schedulers: %s", error)


def settlement_note(settlement: Settlement) -> Note | None:
    """The note on the tick of a job that was settled; None if the job has not ended."""
    if settlement.status in _SUCCEEDED:
        return Note(settlement.id, "succeeded")
    if settlement.status in _FAILED:
        return Note(settlement.id, "failed", settlement.reason or settlement.status.value)
    return None
