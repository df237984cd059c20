"""JobFilter: which jobs or dead letters a command or a program means, and the searches that find them.

The backend finds a state, a queue and an age through its indexes; the other fields are checked job by job.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tenure.backends.parts import DeadLetters, JobControl, Jobs
from tenure.backends.records import JobRecord
from tenure.definition.failure import Failure
from tenure.errors import InvalidFilter
from tenure.events import END_STATES, JOB_STATES

DEAD_LETTER_PAGE = 500  # letters read at a time
_HEAD_PAGE = 1000
_FIRST_PAGE = 100
_LARGEST_PAGE = 2000  # pages grow: most searches need one page, and a search that finds nothing needs few
_MAX_READ = 10_000  # jobs read by one search, so that a filter that matches little does not read a whole history


class JobFilter(Struct, frozen=True, kw_only=True):
    """Selects the jobs that match every given field.

    `since` and `before`, in UTC microseconds, limit the time of the end, or of the enqueue while the job has not ended.
    `text` is searched in the id, name, reason, result and errors of a job, ignoring case. A job has all of the `tags`:
    backends find the first one through an index.
    """

    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    queue: str | None = None
    handler: str | None = None
    name: str | None = None
    reason: str | None = None
    since: int | None = None
    before: int | None = None
    text: str | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether all jobs that a backend finds by state and queue match."""
        others = (self.handler, self.name, self.reason, self.since, self.before, self.text)
        return not self.tags and all(each is None for each in others)

    def matches(self, job: JobRecord) -> bool:
        """Whether the job matches; a search without tags has checked its state."""
        moment = job.finished_at or job.enqueued_at
        return (
            self.queue in (None, job.queue)
            and self.handler in (None, job.handler)
            and self.name in (None, job.name)
            and self.reason in (None, job.reason)
            and moment >= (self.since or 0)
            and (self.before is None or moment < self.before)
            and (self.text is None or _has_text(job, self.text.casefold()))
            and (not self.tags or (set(self.tags) <= set(job.tags) and job.state in (self.states or JOB_STATES)))
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


class _Place(Struct, frozen=True, array_like=True):
    """How far a search has read: up to a cursor in the jobs of one state and queue; None: all of these jobs.

    For a search by tags the state is empty, and the tag takes the place of the queue.
    """

    state: str
    queue: str
    cursor: str | None


class _Slice(NamedTuple):
    """Jobs that were read at once, and the cursors before and after them."""

    state: str
    queue: str
    start: str | None
    jobs: list[JobRecord]
    end: str | None


def find_jobs(
    reader: Jobs, wanted: JobFilter, accept: Callable[[JobRecord], bool], after: str | None = None
) -> Iterator[JobRecord]:
    """All jobs that match and are accepted, read page by page while the caller iterates.

    Jobs that change their state meanwhile may be missed or come twice.
    """
    for part in _slices(reader, wanted, None if after is None else _decode_place(after)):
        yield from (job for job in part.jobs if wanted.matches(job) and accept(job))


def find_page(
    reader: Jobs, wanted: JobFilter, accept: Callable[[JobRecord], bool], limit: int, after: str | None = None
) -> tuple[list[JobRecord], str | None]:
    """Up to `limit` of the jobs that `find_jobs` finds, and the cursor of the next page; None after the last job."""
    found: list[JobRecord] = []
    place = None if after is None else _decode_place(after)
    size = min(limit, _LARGEST_PAGE) if wanted.is_indexed else _FIRST_PAGE
    for part in _slices(reader, wanted, place, size):
        for number, job in enumerate(part.jobs, 1):
            if not (wanted.matches(job) and accept(job)):
                continue
            found.append(job)
            if len(found) == limit:
                return found, _encode_place(_place_after(reader, wanted, part, number))
    return found, None


def _place_after(reader: Jobs, wanted: JobFilter, part: _Slice, number: int) -> _Place:
    """The place behind the first `number` jobs of a slice; the backend makes the cursor, so it reads them again."""
    end = part.end
    if number < len(part.jobs) and wanted.tags:
        _, end = reader.tagged(part.queue, limit=number, cursor=part.start)
    elif number < len(part.jobs):
        before = _ended_before(wanted, part.state)
        _, end = reader.page(part.state, part.queue, limit=number, cursor=part.start, before=before)
    return _Place(part.state, part.queue, end)


def _encode_place(place: _Place) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decode_place(text: str) -> _Place:
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Place)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidFilter(f"{text!r:.80} is not the cursor of a page of jobs") from error


def _candidates(reader: Jobs, wanted: JobFilter) -> Iterator[JobRecord]:
    """The jobs of the wanted states and queue, as far back as the filter reaches."""
    return (job for part in _slices(reader, wanted) for job in part.jobs)


def _slices(reader: Jobs, wanted: JobFilter, after: _Place | None = None, size: int = _FIRST_PAGE) -> Iterator[_Slice]:
    """The jobs of the wanted states and queue, or of the first tag, behind a place, as far as the filter reaches."""
    if wanted.tags:
        yield from _tag_slices(reader, wanted.tags[0], after, size)
        return
    states = wanted.states or JOB_STATES
    if after is not None and after.state not in states:
        raise InvalidFilter(f"the cursor of a page of {after.state} jobs does not fit a search for other states")
    for state in states if after is None else states[states.index(after.state) :]:
        for queue in [wanted.queue] if wanted.queue else sorted(reader.queues_with(state)):
            if after is None or after.state != state or after.queue < queue:
                yield from _queue_slices(reader, wanted, state, queue, None, size)
            elif after.queue == queue and after.cursor is not None:
                yield from _queue_slices(reader, wanted, state, queue, after.cursor, size)


def _tag_slices(reader: Jobs, tag: str, after: _Place | None, size: int) -> Iterator[_Slice]:
    if after is not None and (after.state or after.queue != tag):
        raise InvalidFilter("the cursor is that of another search; a search by tags goes on with the same first tag")
    if after is not None and after.cursor is None:
        return
    cursor = None if after is None else after.cursor
    while True:
        jobs, end = reader.tagged(tag, limit=size, cursor=cursor)
        yield _Slice("", tag, cursor, jobs, end)
        if end is None:
            return
        cursor, size = end, min(2 * size, _LARGEST_PAGE)


def _queue_slices(
    reader: Jobs, wanted: JobFilter, state: str, queue: str, cursor: str | None, size: int
) -> Iterator[_Slice]:
    before = _ended_before(wanted, state)
    while True:
        jobs, end = reader.page(state, queue, limit=size, cursor=cursor, before=before)
        yield _Slice(state, queue, cursor, jobs, end)
        is_old = wanted.since is not None and any((job.finished_at or wanted.since) < wanted.since for job in jobs)
        if end is None or is_old:  # the following jobs ended even earlier
            return
        cursor, size = end, min(2 * size, _LARGEST_PAGE)


def _ended_before(wanted: JobFilter, state: str) -> int | None:
    return wanted.before if state in END_STATES else None


def _has_text(job: JobRecord, text: str) -> bool:
    searched = (job.id, job.name or "", job.reason or "", job.output or "", *map(failure_text, job.failures))
    return any(text in each.casefold() for each in searched)
