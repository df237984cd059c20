"""DeadLetterQueue: finds, replays, deletes and stores the dead letters of one backend."""

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any

from tenure.backends.contract import Backend
from tenure.backends.job_filter import DEAD_LETTER_PAGE, JobFilter, search_dead_letters
from tenure.backends.messages import Message
from tenure.backends.records import JobRecord, NewDeadLetter
from tenure.backends.url import without_secrets
from tenure.clock import to_microseconds
from tenure.definition.duration import to_moment
from tenure.errors import BackendError
from tenure.events import Listeners, NotBuried
from tenure.redaction import one_line

logger = logging.getLogger(__name__)


class DeadLetterQueue:
    """Returned by `app.dead_letters()`; each method takes any number of letters, 500 per round trip."""

    def __init__(self, backend: Backend, url: str, seal: Callable[[str, Any], Message], listeners: Listeners) -> None:
        """`url` names the backend in errors; `seal` makes the message of a job that is stored as a dead letter."""
        if backend.dead_letters is None:
            raise BackendError(f"the backend {without_secrets(url)!r} has no dead letters")
        self._letters = backend.dead_letters
        self._jobs = backend.jobs
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
        """The matching letters, oldest first, read page by page while you iterate.

        They died at or after `since` and before `before`; `text` is searched in id, name, reason and errors.
        """
        wanted = JobFilter(
            queue=queue,
            handler=handler,
            reason=reason,
            since=_moment(since, "since"),
            before=_moment(before, "before"),
            text=text,
        )
        return chain.from_iterable(self.search(wanted))

    def search(self, wanted: JobFilter) -> Iterator[list[JobRecord]]:
        """The letters that a filter selects, oldest first, in lists of at most 500."""
        return search_dead_letters(self._letters, wanted)

    def get(self, ids: Iterable[str]) -> Iterator[JobRecord]:
        """The dead letters with these ids; a broker that cannot find a job by its id reads all its dead letters."""
        if self._jobs is not None:
            found = map(self._jobs.find, dict.fromkeys(ids))
            return (record for record in found if record is not None and record.state == "dead")
        wanted = set(ids)
        return (letter for page in self.search(JobFilter()) for letter in page if letter.id in wanted)

    def replay(self, ids: Iterable[str]) -> list[str]:
        """Make letters ready again with fresh counters; returns the ids that were dead."""
        return [id for batch in _batches(ids) for id in self._letters.replay(batch)]

    def discard(self, ids: Iterable[str]) -> list[str]:
        """Delete letters for good; returns the ids that were dead."""
        return [id for batch in _batches(ids) for id in self._letters.discard(batch)]

    def store(self, payload: Any, handler: str, reason: str, attempts: int = 0) -> str:
        """Make a job a dead letter without running it, and return its id; a replay runs it.

        An error while storing it is logged as critical, counted, and raised.
        """
        message = self._seal(handler, payload)
        try:
            self._letters.add([NewDeadLetter(message=message, reason=reason, attempts=attempts)])
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
    while batch := list(islice(source, DEAD_LETTER_PAGE)):
        yield batch
