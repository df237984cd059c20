"""JobFilter: which jobs or dead letters a command or a program means, and the searches that find them.

The backend finds a state, a queue and an age through its indexes; the other fields are checked job by job.
"""

from collections.abc import Iterator

from msgspec import Struct

from tenure.backends.parts import DeadLetters, JobControl, Jobs
from tenure.backends.records import JobRecord
from tenure.definition.failure import Failure
from tenure.events import END_STATES, JOB_STATES

DEAD_LETTER_PAGE = 500  # letters read at a time
_HEAD_PAGE = 1000
_FIRST_PAGE = 100
_LARGEST_PAGE = 2000  # pages grow: most searches need one page, and a search that finds nothing needs few
_MAX_READ = 10_000  # jobs read by one search, so that a filter that matches little does not read a whole history


class JobFilter(Struct, frozen=True, kw_only=True):
    """Selects the jobs that match every given field.

    `since` and `before`, in UTC microseconds, limit the time of the end, or of the enqueue while the job has not ended.
    `text` is searched in the id, name, reason, result and errors of a job, ignoring case.
    """

    states: tuple[str, ...] = ()
    queue: str | None = None
    handler: str | None = None
    name: str | None = None
    reason: str | None = None
    since: int | None = None
    before: int | None = None
    text: str | None = None

    def matches(self, job: JobRecord) -> bool:
        """Whether the job matches; the search has checked its state."""
        moment = job.finished_at or job.enqueued_at
        return (
            self.queue in (None, job.queue)
            and self.handler in (None, job.handler)
            and self.name in (None, job.name)
            and self.reason in (None, job.reason)
            and moment >= (self.since or 0)
            and (self.before is None or moment < self.before)
            and (self.text is None or _has_text(job, self.text.casefold()))
        )


def all_heads(control: JobControl) -> Iterator[bytes]:
    """The first bytes of every message that has not ended; `kid_of` reads the key from them."""
    heads, cursor = control.heads(limit=_HEAD_PAGE)
    yield from heads
    while cursor is not None:
        heads, cursor = control.heads(limit=_HEAD_PAGE, cursor=cursor)
        yield from heads


def search_jobs(reader: Jobs, wanted: JobFilter, limit: int) -> tuple[list[JobRecord], bool]:
    """Up to `limit` matching jobs, and whether there may be more."""
    found: list[JobRecord] = []
    for read, job in enumerate(_candidates(reader, wanted)):
        if read == _MAX_READ or len(found) > limit:
            return found[:limit], True
        if wanted.matches(job):
            found.append(job)
    return found[:limit], len(found) > limit


def count_ended(reader: Jobs, state: str, queue: str | None, before: int) -> int:
    """How many jobs ended in this state before this time; reads each of them."""
    return sum(1 for _ in _candidates(reader, JobFilter(states=(state,), queue=queue, before=before)))


def search_dead_letters(
    letters: DeadLetters, wanted: JobFilter, page_size: int = DEAD_LETTER_PAGE
) -> Iterator[list[JobRecord]]:
    """The matching letters, oldest first, in lists of at most `page_size`; empty lists are left out.

    A page is read when the caller has taken the one before, so the caller may replay or discard what it got.
    """
    after = None if wanted.since is None else (wanted.since, "")
    while page := letters.page(queue=wanted.queue, limit=page_size, after=after):
        after = (page[-1].finished_at or 0, page[-1].id)
        if found := [letter for letter in page if wanted.matches(letter)]:
            yield found
        if len(page) < page_size or (wanted.before is not None and after[0] >= wanted.before):
            return


def failure_text(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}"


def _candidates(reader: Jobs, wanted: JobFilter) -> Iterator[JobRecord]:
    """The jobs of the wanted states and queue, as far back as the filter reaches."""
    for state in wanted.states or JOB_STATES:
        for queue in [wanted.queue] if wanted.queue else reader.queues_with(state):
            for job in _all_pages(reader, state, queue, wanted.before if state in END_STATES else None):
                yield job
                if wanted.since is not None and (job.finished_at or wanted.since) < wanted.since:
                    break  # the following jobs ended even earlier


def _all_pages(reader: Jobs, state: str, queue: str, before: int | None) -> Iterator[JobRecord]:
    size, cursor = _FIRST_PAGE, None
    while True:
        page, cursor = reader.page(state, queue, limit=size, cursor=cursor, before=before)
        yield from page
        if cursor is None:
            return
        size = min(2 * size, _LARGEST_PAGE)


def _has_text(job: JobRecord, text: str) -> bool:
    searched = (job.id, job.name or "", job.reason or "", job.output or "", *map(failure_text, job.failures))
    return any(text in each.casefold() for each in searched)
