"""The bookkeeper: writes into the ledger how the jobs of ticks have ended, and lets go what waited for them."""

import logging
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from tenure.backends.ledger import Ledger, Note
from tenure.cron.occurrence import is_tick
from tenure.cron.outcomes import ending, noted
from tenure.errors import BackendError, TenureError
from tenure.events import Event, Listeners, Settled

logger = logging.getLogger(__name__)

_PAUSE = 1.0
_LAST_TRIES = 3


class Bookkeeper:
    """A role beside a worker; jobs that no schedule made cost it a look at their ids."""

    def __init__(self, ledger: Ledger, listeners: Listeners, release: Callable[[], None]) -> None:
        """`release` sees to the ticks that wait for others."""
        self._ledger = ledger
        self._listeners = listeners
        self._release = release
        self._heard: SimpleQueue[list[Note] | None] = SimpleQueue()
        self._stopping = False
        listeners.add(self.hear)

    def hear(self, event: Event) -> None:
        if isinstance(event, Settled):
            ours = [note for each in event.settlements if is_tick(each.id) and (note := noted(each))]
            if ours:
                self._heard.put(ours)

    def run(self) -> None:
        while (notes := self._heard.get()) is not None:
            self._write(notes)
        self._listeners.remove(self.hear)

    def stop(self) -> None:
        """Write what was heard, then end."""
        self._stopping = True
        self._heard.put(None)

    def _write(self, notes: Sequence[Note]) -> None:
        """What cannot be written is found by the schedulers, a little later."""
        tries = 0
        while not (self._stopping and tries >= _LAST_TRIES):
            try:
                changed = self._ledger.note(notes)
                break
            except BackendError as error:
                tries += 1
                logger.warning("the ends of %d ticks could not be written down, trying again: %s", len(notes), error)
                time.sleep(_PAUSE)
        else:
            return
        for record in changed:
            if event := ending(record):
                self._listeners.emit(event)
        if changed:
            self._let_go()

    def _let_go(self) -> None:
        try:
            self._release()
        except TenureError as error:
            logger.warning("ticks that wait for others were left to the schedulers: %s", error)
