"""DeadLetterQueue: the dead letters of one backend, as an app's own code finds, replays, deletes and stores them."""

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any

from tenure.backends.asking import Burial, Burying, DeadLetters, JobRecord
from tenure.backends.contract import Backend, Message
from tenure.backends.letters import PAGE, Filter, pages
from tenure.clock import to_microseconds
from tenure.definition.duration import to_moment
from tenure.errors import BackendError
from tenure.events import Listeners, NotBuried
from tenure.redaction import one_line

logger = logging.getLogger(__name__)


class DeadLetterQueue:
    """What `app.dead_letters()` returns; every verb goes through any number of letters, 500 a round trip."""

    def __init__(self, backend: Backend, seal: Callable[[str, Any], Message], listeners: Listeners) -> None:
        if not isinstance(backend, DeadLetters):
            raise BackendError(f"{type(backend).__name__} keeps no dead letters")
        self._letters = backend
        self._seal = seal
        self._listeners = listeners

    def find(
        self,
        *,
        queue: str | None = None,
        handler: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        text: str | None = None,
    ) -> Iterator[JobRecord]:
        """The letters of which all this holds, the oldest first, read as you go on.

        They died `since` one time and `before` another; `text` stands in their name or in an error.
        """
        wanted = Filter(
            queue=queue,
            handler=handler,
            reason=reason,
            since=_moment(since, "since"),
            before=_moment(before, "before"),
            text=text,
        )
        return chain.from_iterable(pages(self._letters, wanted))

    def replay(self, ids: Iterable[str]) -> list[str]:
        """Make letters ready again with fresh counters; returns the ids that were dead."""
        return [id for batch in _batches(ids) for id in self._letters.replay(batch)]

    def discard(self, ids: Iterable[str]) -> list[str]:
        """Delete letters for good; returns the ids that were dead."""
        return [id for batch in _batches(ids) for id in self._letters.discard(batch)]

    def store(self, payload: Any, handler: str, reason: str, attempts: int = 0) -> str:
        """Make a job a dead letter without running it, and return its id; a replay runs it.

        When it cannot be stored, that is logged as critical, counted, and raised.
        """
        message = self._seal(handler, payload)
        if not isinstance(self._letters, Burying):
            raise BackendError(f"{type(self._letters).__name__} takes dead letters only from workers")
        try:
            self._letters.bury([Burial(message=message, reason=reason, attempts=attempts)])
        except BackendError as error:
            logger.critical(
                "a dead letter for %s could not be stored: %s", one_line(handler), error, extra={"job": message.id}
            )
            self._listeners.emit(NotBuried(message.queue, (message.id,), str(error)))
            raise
        return message.id


def _moment(value: datetime | None, what: str) -> int | None:
    return None if value is None else to_microseconds(to_moment(value, what))


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    source = iter(ids)
    while batch := list(islice(source, PAGE)):
        yield batch
