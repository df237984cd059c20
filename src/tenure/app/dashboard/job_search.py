"""Searches jobs for the pages and actions of the dashboard: page by page, and never more rows than its budget.

The filter decides which index leads the search: ids, the ticks of a schedule, tags, the order of enqueue, or the states
and queues one by one. Everything else is checked job by job. A cursor says how far a search has read.
"""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct, structs

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import JobQuery, moment_of
from tenure.app.dashboard.job_match import Match, job_match, queue_match, queue_patterns, texts_of
from tenure.app.dashboard.job_now import started_by_job, workers_by_job
from tenure.backends.contract import Parts, required
from tenure.backends.parts import Jobs
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND
from tenure.errors import InvalidFilter
from tenure.events import END_STATES, JOB_STATES

MAX_READ = 10_000  # rows of one page, so that a filter that matches little does not read a whole history
MAX_SECONDS = 0.04  # of one page, which may take 0.1 s in all; the user may let the search go on
_FIRST_SLICE = 100
_LARGEST_SLICE = 500
_BULK_SLICE = 2000  # of actions, which have no budget
_SCHEDULE_TICKS = 200  # the newest ticks of a schedule whose jobs are shown

Order = Literal["ids", "schedule", "tags", "newest", "states"]


class SearchPlace(Struct, frozen=True, array_like=True):
    """How far a search has read: up to a cursor of the jobs of one state and queue, or of one tag (the `name`).

    Without a cursor none of them was read, or all of them if `is_read`.
    """

    order: str
    state: str = ""
    name: str = ""
    cursor: str | None = None
    is_read: bool = False


class PageCursor(Struct, frozen=True, array_like=True):
    """What the address of a page has: how many jobs the pages before have shown, and the place behind them."""

    shown: int
    place: SearchPlace

    def encode(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def decode_cursor(text: str) -> PageCursor:
    try:
        found = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=PageCursor)
        if found.shown < 0:
            raise ValueError("a page cannot begin before the first job")
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidFilter(f"{text!r:.80} is not the cursor of a page of jobs") from error
    return found


class Found(NamedTuple):
    """Some of the jobs; `place` is where the next page goes on, None after the last job.

    `order` is that in which they were read. `stopped_after` is the number of jobs that were read when the budget ended
    the search.
    """

    jobs: list[JobRecord]
    order: str
    place: SearchPlace | None = None
    stopped_after: int | None = None


class _SearchSlice(NamedTuple):
    """Jobs that were read at once; of these, only those that it accepts belong to the search.

    They lie between the places `start` and `end`; `behind(n)` is the place behind the first n. `asked` is how many were
    wanted; `spent`: the backend read as many as the budget allows to find them.
    """

    jobs: list[JobRecord]
    start: SearchPlace
    end: SearchPlace
    behind: Callable[[int], SearchPlace]
    accept: Match = bool
    asked: int = 0
    spent: bool = False


class _Budget:
    """The time of one page."""

    def __init__(self, seconds: float) -> None:
        self._last = time.monotonic()
        self._end = self._last + seconds

    def is_spent(self, part: _SearchSlice) -> bool:
        """Whether the search must end after this slice: the time is over, or would be after another one like it.

        Behind a slice that was read to its end there may be nothing, so that another one costs no time.
        """
        last, self._last = self._last, time.monotonic()
        more = 0.0 if part.end.is_read else self._last - last
        return self._last + more > self._end


_Fetch = Callable[[int, str | None], tuple[list[JobRecord], str | None]]


@dataclass(frozen=True)
class FilterSearch:
    """One filter, on the queues that one user sees; `queues` are the only ones that can match, None: any queue."""

    parts: Parts
    query: JobQuery
    matches: Match
    wants_queue: Callable[[str], bool]
    queues: tuple[str, ...] | None
    now: int
    started: Mapping[str, int] = field(default_factory=dict)  # when running attempts began, by the id of the job

    @property
    def order(self) -> Order:
        """Which index leads the search."""
        query = self.query
        if query.wanted("id"):
            return "ids"
        if query.wanted("schedule"):
            return "schedule"
        if query.wanted("tag"):
            return "tags"
        if self.parts.recent is None or query.one("until") or ("state" in query.keys and query.one("sort") != "newest"):
            return "states"
        return "newest"

    @property
    def sorts_itself(self) -> bool:
        """Whether jobs are read first, as far as the budget goes, and then put in order."""
        return self.query.one("sort") in ("oldest", "longest")

    def page(
        self, limit: int, after: SearchPlace | None = None, max_read: int | None = None, seconds: float | None = None
    ) -> Found:
        """Up to `limit` jobs behind a place; if they are the last ones, the page behind them may be empty."""
        max_read, seconds = max_read or MAX_READ, MAX_SECONDS if seconds is None else seconds
        if self.sorts_itself:
            return self._sorted(limit, max_read, seconds)
        found: list[JobRecord] = []
        budget, read, order = _Budget(seconds), 0, str(self.order)
        is_indexed = self.query.keys <= {"state", "queue", "sort", "since"}  # most jobs that are read match
        for part in self._slices(after, min(limit, _LARGEST_SLICE) if is_indexed else _FIRST_SLICE, max_read):
            order = part.start.order
            for number, job in enumerate(part.jobs):
                if not (part.accept(job) and self.matches(job)):
                    continue
                if len(found) == limit:
                    return Found(found, order, part.behind(number))
                found.append(job)
            if len(found) == limit and not part.end.is_read:
                return Found(found, order, part.end)
            read += max_read if part.spent else len(part.jobs)
            if read >= max_read or budget.is_spent(part):
                return Found(found, order, part.end, min(read, max_read))
        return Found(found, order)

    def all(self) -> Iterator[list[JobRecord]]:
        """All matching jobs, list by list, without a budget; lists may be empty, so that the caller can stop."""
        for part in self._slices(None, _BULK_SLICE, None):
            yield [job for job in part.jobs if part.accept(job) and self.matches(job)]

    def _sorted(self, limit: int, max_read: int, seconds: float) -> Found:
        found: list[JobRecord] = []
        budget, read, stopped = _Budget(seconds), 0, None
        for part in self._slices(None, _FIRST_SLICE, max_read):
            found += [job for job in part.jobs if part.accept(job) and self.matches(job)]
            read += max_read if part.spent else len(part.jobs)
            if read >= max_read or budget.is_spent(part):
                stopped = min(read, max_read)
                break
        is_oldest = self.query.one("sort") == "oldest"
        found.sort(key=(lambda job: job.enqueued_at) if is_oldest else (lambda job: -self._run_seconds(job)))
        return Found(found[:limit], self.order, None, stopped)

    def _run_seconds(self, job: JobRecord) -> float:
        """How long the job runs, or ran the last time; -1 if that is not known."""
        if job.state == "leased":
            return (self.now - self.started.get(job.id, self.now + MICROSECOND)) / MICROSECOND
        return -1.0 if job.run is None else job.run.seconds

    def _slices(self, after: SearchPlace | None, size: int, max_read: int | None) -> Iterator[_SearchSlice]:
        order = self.order if after is None else after.order
        if order in ("newest", "ended") and self.parts.recent is None:
            raise InvalidFilter("the cursor of this page is that of another backend")
        try:
            if order == "ids":
                yield from self._with_ids(after, size, max_read)
            elif order == "schedule":
                yield from self._of_schedules(after)
            elif order == "tags":
                yield from self._with_tags(after, size)
            elif order == "newest":
                yield from self._newest(after, size, max_read)
            elif order == "ended":
                yield from self._ended(after, size)
            else:
                yield from self._by_state("states", self.query.states() or JOB_STATES, after, size)
        except (ValueError, TypeError, msgspec.MsgspecError) as error:  # a backend could not read its own cursor
            if after is None or isinstance(error, InvalidFilter):
                raise
            raise InvalidFilter("the cursor of this page is not one that a page of jobs returned") from error

    def _with_ids(self, after: SearchPlace | None, size: int, max_read: int | None) -> Iterator[_SearchSlice]:
        """Whole ids, and beginnings of ids where an index has them; else the ends of the ids of many jobs."""
        found = {job.id: job for value in self.query.wanted("id") for job in ids_like(self.parts, value, size)}
        if found:
            yield _whole("ids", list(found.values()), after)
        elif self.parts.recent is not None:
            yield from self._newest(None, size, max_read)
        else:
            yield from self._by_state("states", self.query.states() or JOB_STATES, None, size)

    def _of_schedules(self, after: SearchPlace | None) -> Iterator[_SearchSlice]:
        ledger = required(self.parts.ledger, "records of ticks")
        names = self.query.wanted("schedule")
        ids = [tick.id for name in names for tick in ledger.history(name, limit=_SCHEDULE_TICKS)]
        found = [self.parts.find(id) for id in dict.fromkeys(ids)]
        yield _whole("schedule", [job for job in found if job is not None], after)

    def _with_tags(self, after: SearchPlace | None, size: int) -> Iterator[_SearchSlice]:
        """Tag by tag; a job with several of the tags is found under the first of them."""
        reader, tags = self._reader, self.query.wanted("tag")
        for number, tag in enumerate(tags):
            place = SearchPlace("tags", "", tag)
            if after is not None and after.name > tag:
                continue
            fetch = partial(_tagged, reader, tag)
            is_new = partial(_has_none, tags[:number])
            yield from _read(fetch, after if after is not None and after.name == tag else place, size, is_new)

    def _newest(self, after: SearchPlace | None, size: int, max_read: int | None) -> Iterator[_SearchSlice]:
        """By the order of enqueue; then those that were enqueued before `since`, and ended after it.

        Few jobs of a queue may lie behind many others: then an index finds them, state by state.
        """
        since = self.query.one("since")
        first = 0 if since is None else moment_of(since, self.now)
        if self.queues == ():
            return
        fetch = partial(self._recent, max_read or MAX_READ)
        for part in _read(fetch, after or SearchPlace("newest"), size, lambda job: job.enqueued_at >= first):
            spent = part.end.cursor is not None and len(part.jobs) < part.asked
            if spent and self.queues is not None and after is None and part.start.cursor is None:
                yield from self._by_state("states", self.query.states() or JOB_STATES, None, size)
                return
            yield part._replace(spent=spent)
            if part.jobs and all(job.enqueued_at < first for job in part.jobs):
                break
        if since is not None:
            yield from self._ended(None, size)

    def _ended(self, after: SearchPlace | None, size: int) -> Iterator[_SearchSlice]:
        """The jobs that were enqueued before `since`, and ended after it."""
        first = moment_of(self.query.one("since") or "0s", self.now)
        yield from self._by_state("ended", END_STATES, after, size, lambda job: job.enqueued_at < first)

    def _recent(self, max_read: int, limit: int, cursor: str | None) -> tuple[list[JobRecord], str | None]:
        recent, handlers = required(self.parts.recent, "order of jobs"), self.query.wanted("handler")
        handler = handlers[0] if len(handlers) == 1 and not handlers[0].endswith("*") else None
        return recent.page(limit=limit, cursor=cursor, queues=self.queues or (), handler=handler, max_read=max_read)

    def _by_state(
        self, order: str, states: Sequence[str], after: SearchPlace | None, size: int, accept: Match = bool
    ) -> Iterator[_SearchSlice]:
        """State by state and queue by queue, each in the order of the backend."""
        if after is not None and after.state not in states:
            raise InvalidFilter("the cursor of this page is that of a filter for other states")
        since, until = self.query.one("since"), self.query.one("until")
        first = None if since is None else moment_of(since, self.now)
        for state in states if after is None else states[states.index(after.state) :]:
            is_end = state in END_STATES
            before = moment_of(until, self.now) if until and is_end else None
            for queue in self.queues_with(state):
                place = SearchPlace(order, state, queue)
                if after is not None and after.state == state and after.name >= queue:
                    if after.name > queue:
                        continue
                    place = after
                for part in _read(partial(_of_state, self._reader, state, queue, before), place, size, accept):
                    yield part
                    if is_end and first is not None and any((job.finished_at or first) < first for job in part.jobs):
                        break  # the following jobs ended even earlier

    def queues_with(self, state: str) -> list[str]:
        if self.queues is not None:
            return sorted(self.queues)
        return sorted(filter(self.wants_queue, self._reader.queues_with(state)))

    @property
    def _reader(self) -> Jobs:
        return required(self.parts.jobs, "lists of jobs")


def job_search(sources: Sources, access: Access, query: JobQuery) -> FilterSearch:
    """The search of a filter without faults, on the queues that the user sees."""
    now = sources.app.clock.now()
    wants_queue = queue_match(query, access.sees, sources.queue_name)
    named = queue_patterns(query.wanted("queue"), sources.queue_name)
    queues: tuple[str, ...] | None = None
    if named and not any(name.endswith("*") for name in named):
        queues = tuple(filter(wants_queue, named))
    elif access.queues is not None:
        queues = tuple(filter(wants_queue, access.queues))
    workers = sources.figures.workers or () if query.keys & {"worker", "sort"} else ()
    holders = workers_by_job(workers)
    matches = job_match(query, now, wants_queue, partial(_shown_texts, sources, access), holders)
    return FilterSearch(sources.parts, query, matches, wants_queue, queues, now, started_by_job(workers))


def _shown_texts(sources: Sources, access: Access, job: JobRecord) -> list[str]:
    """The texts of a job as the user may see them, so that a search does not tell what the pages hide."""
    if access.redact is None:
        return [sources.redactor.text(job.output or ""), *texts_of(job)]
    info = access.redact(sources.app.jobs.info(job, in_list=True))
    errors = (f"{failure.error_type}: {failure.error}" for failure in info.failures)
    return [sources.redactor.text(info.output or ""), info.id, info.name or "", info.reason or "", *errors]


def ids_like(parts: Parts, value: str, limit: int) -> list[JobRecord]:
    """The job with this id, or those whose id begins so.

    Backends without the order of enqueue have no index of ids either, and would compare all of them.
    """
    exact = parts.find(value)
    if exact is not None:
        return [exact]
    return [] if parts.recent is None or parts.jobs is None else parts.jobs.with_prefix(value, limit)


def _read(fetch: _Fetch, start: SearchPlace, size: int, accept: Match = bool) -> Iterator[_SearchSlice]:
    """Page after page behind a place; pages grow, because most searches need one page, and others many."""
    place = start
    while not place.is_read:
        jobs, cursor = fetch(size, place.cursor)
        end = structs.replace(place, cursor=cursor, is_read=cursor is None)
        yield _SearchSlice(jobs, place, end, partial(_behind, fetch, place), accept, size)
        place, size = end, max(size, min(2 * size, _LARGEST_SLICE))


def _behind(fetch: _Fetch, place: SearchPlace, number: int) -> SearchPlace:
    """The place behind the first `number` jobs of a slice; the backend makes the cursor, so it reads them again."""
    return structs.replace(place, cursor=fetch(number, place.cursor)[1]) if number else place


def _whole(order: str, jobs: list[JobRecord], after: SearchPlace | None) -> _SearchSlice:
    """Jobs that are read as a whole for every page; the cursor is the number of those behind it."""
    shown = int(after.cursor or 0) if after is not None else 0
    end = SearchPlace(order, cursor=str(len(jobs)), is_read=True)
    start = SearchPlace(order, cursor=str(shown))
    return _SearchSlice(jobs[shown:], start, end, lambda number: SearchPlace(order, cursor=str(shown + number)))


def _tagged(reader: Jobs, tag: str, limit: int, cursor: str | None) -> tuple[list[JobRecord], str | None]:
    return reader.tagged(tag, limit=limit, cursor=cursor)


def _of_state(
    reader: Jobs, state: str, queue: str, before: int | None, limit: int, cursor: str | None
) -> tuple[list[JobRecord], str | None]:
    return reader.page(state, queue, limit=limit, cursor=cursor, before=before)


def _has_none(tags: Sequence[str], job: JobRecord) -> bool:
    return not set(tags) & set(job.tags)
