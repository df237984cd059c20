"""Letters: which dead letters are meant, found by going through them a page at a time.

A backend pages by time of death and knows its queues; the rest is decided here, once for all of them.
So a queue and an age are found at the cost of what they hold, and everything else by looking at each letter in that.
"""

from collections.abc import Iterator

from msgspec import Struct

from tenure.backends.asking import DeadLetters, JobRecord
from tenure.definition.failure import Failure

PAGE = 500


class Filter(Struct, frozen=True, kw_only=True):
    """All that is given must hold; died `since` this time and `before` that one, in UTC microseconds.

    `text` may stand in the name of the job or in any of its errors, in capitals or not.
    """

    queue: str | None = None
    handler: str | None = None
    reason: str | None = None
    since: int | None = None
    before: int | None = None
    text: str | None = None

    def admits(self, letter: JobRecord) -> bool:
        died = letter.finished_at or 0
        return (
            self.queue in (None, letter.queue)
            and self.handler in (None, letter.handler)
            and self.reason in (None, letter.reason)
            and died >= (self.since or 0)
            and (self.before is None or died < self.before)
            and (self.text is None or self._is_said(letter, self.text.casefold()))
        )

    def _is_said(self, letter: JobRecord, text: str) -> bool:
        return any(text in said.casefold() for said in (letter.name or "", *map(told, letter.failures)))


def told(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}"


def pages(letters: DeadLetters, wanted: Filter, size: int = PAGE) -> Iterator[list[JobRecord]]:
    """What the filter admits, the oldest first, as lists of at most `size`; empty ones are left out.

    A page is asked for when the one before was taken, so what is found may be replayed or discarded meanwhile.
    """
    after = None if wanted.since is None else (wanted.since, "")
    while page := letters.dead(queue=wanted.queue, limit=size, after=after):
        after = (page[-1].finished_at or 0, page[-1].id)
        if found := [letter for letter in page if wanted.admits(letter)]:
            yield found
        if len(page) < size or (wanted.before is not None and after[0] >= wanted.before):
            return
