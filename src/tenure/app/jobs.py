"""`app.jobs`: finds, shows, counts, awaits and changes the jobs of a backend."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Literal, Unpack

from tenure.app.client import AppClient, open_message
from tenure.app.job_changes import BulkResult, JobChange, JobChanges
from tenure.backends.contract import required
from tenure.backends.job_filter import JobFilter, find_jobs, find_page
from tenure.backends.parts import Jobs
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND, Clock, to_microseconds
from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.job_function import JobFunction
from tenure.definition.job_info import JobInfo
from tenure.definition.job_search import JobSearch
from tenure.definition.moment import When
from tenure.definition.queues import Queues
from tenure.errors import InvalidFilter, JobNotFound, MessageRejected, PayloadErased, ResultTimeout
from tenure.events import END_STATES, ENDED_WELL, JOB_STATES

_PAGE = 100  # jobs of a page without a limit


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of the jobs that a search found; `cursor` is the `after` of the next page, None after the last.

    A page that ends with the last job may still have a cursor: the next page is empty then.
    """

    jobs: tuple[JobInfo, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """The jobs of a search: each iteration reads them from the backend, page by page; `page()` reads one page.

    The infos have no payload and no meta: `app.jobs.get(id)` reads them. Live jobs come in the order in which they
    run, ended jobs with the newest first, state by state and queue by queue; with tags, the last enqueued job is first.
    """

    client: AppClient = field(repr=False)
    reader: Jobs = field(repr=False)
    filter: JobFilter
    accept: Callable[[JobRecord], bool] = field(repr=False)
    limit: int | None
    after: str | None

    def __iter__(self) -> Iterator[JobInfo]:
        return (self.client.info(record, in_list=True) for record in self.records())

    def records(self) -> Iterator[JobRecord]:
        """As an iteration, but the records as the backend stores them."""
        return islice(find_jobs(self.reader, self.filter, self.accept, self.after), self.limit)

    def page(self) -> JobPage:
        """Up to `limit` jobs, or 100, and the cursor of the next page."""
        records, cursor = find_page(self.reader, self.filter, self.accept, self.limit or _PAGE, self.after)
        return JobPage(tuple(self.client.info(record, in_list=True) for record in records), cursor)


class AppJobs:
    """`app.jobs` for the backend of the app; `app.jobs.on(backend)` for another one."""

    def __init__(self, client: AppClient, queues: Queues, clock: Clock) -> None:
        self._client = client
        self._queues = queues
        self._clock = clock

    def on(self, backend: str) -> "AppJobs":
        """The jobs of another backend: a name from the settings, or a URL."""
        return AppJobs(self._client.on(backend), self._queues, self._clock)

    def get(self, id: str) -> JobInfo:
        """All that is known about a job; raises JobNotFound if the backend does not know it."""
        return self._client.get(id)

    def record(self, id: str) -> JobRecord:
        """As `get`, but the record as the backend stores it, for tools."""
        return self._client.record(id)

    def info(self, record: JobRecord, *, in_list: bool = False) -> JobInfo:
        """A record as a value for users; records of lists have no message."""
        return self._client.info(record, in_list=in_list)

    @property
    def changes(self) -> JobChanges:
        """What can be done to jobs, for tools that select the jobs themselves."""
        return JobChanges(self._client, self._clock)

    def find(self, *, after: str | None = None, **search: Unpack[JobSearch]) -> FoundJobs:
        """The jobs that match every given argument; reads them page by page, while you iterate.

        `after` is the cursor of a page: the search goes on behind it.
        """
        meta, limit = search.get("meta"), search.get("limit")
        if limit is not None and limit < 1:
            raise InvalidFilter(f"limit must be at least 1, got {limit!r}")
        reader = required(self._client.parts.jobs, "lists of jobs")
        accept = self._has_meta(meta) if meta else _accept_all
        return FoundJobs(self._client, reader, self._filter(search), accept, limit, after)

    def counts(self, by: Literal["queue", "handler"] = "queue", *, ended: bool = True) -> dict[str, dict[str, int]]:
        """How many jobs each queue or handler has in each state; without `ended`, only dead letters and live jobs.

        Backends count by queue, and SQL databases read the narrow rows of all ended jobs for it. To count by handler
        every job is read, about 50 000 in a second on SQLite: leave out `ended` if the history is long.
        """
        if by == "queue":
            return required(self._client.parts.queues, "counts of jobs").counts(ended=ended)
        if by != "handler":
            raise InvalidFilter(f'jobs are counted by "queue" or "handler", not by {by!r}')
        states = [state for state in JOB_STATES if ended or state not in ENDED_WELL]
        found = Counter((record.handler, record.state) for record in self.find(state=states).records())
        counts: dict[str, dict[str, int]] = {}
        for (handler, state), count in sorted(found.items()):
            counts.setdefault(handler, dict.fromkeys(JOB_STATES, 0))[state] = count
        return counts

    def wait(self, ids: Iterable[str], timeout: Duration | None = None) -> dict[str, JobInfo]:
        """Wait until all these jobs have ended, and return them by id; a timeout of None has no limit.

        Raises ResultTimeout, which names the jobs that have not ended in time, and JobNotFound for an unknown id.
        """
        wanted = list(dict.fromkeys(map(str, ids)))
        seconds = None if timeout is None else to_seconds(timeout, "timeout")
        give_up = None if seconds is None else time.monotonic() + seconds
        self._check_known(wanted)
        ended: dict[str, JobInfo] = {}
        for id in wanted:
            left = None if give_up is None else max(0.0, give_up - time.monotonic())
            try:
                ended[id] = self._client.wait(id, left)
            except ResultTimeout:
                self._raise_timeout(wanted, seconds or 0.0)
        return ended

    def cancel(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        **search: Unpack[JobSearch],
    ) -> BulkResult:
        """Cancel the jobs with these ids, or the live jobs that a search finds.

        The results are `cancelled`, `asked` for a running job, which is interrupted, `too_late` and `unknown`.
        """
        changes = self.changes
        return self._change(changes, changes.cancel(), _Selection(ids, all, dry_run, search))

    def reschedule(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        delay: Duration = 0,
        at: When | None = None,
        all: bool = False,
        dry_run: bool = False,
        **search: Unpack[JobSearch],
    ) -> BulkResult:
        """Let the jobs with these ids, or the waiting jobs that a search finds, start `at` a time or after a `delay`.

        The results are `rescheduled`, `running`, `too_late` and `unknown`.
        """
        changes = self.changes
        return self._change(changes, changes.reschedule(delay, at), _Selection(ids, all, dry_run, search))

    def retry(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        keep_idempotency_key: bool = False,
        all: bool = False,
        dry_run: bool = False,
        **search: Unpack[JobSearch],
    ) -> BulkResult:
        """Run jobs again: those with these ids, or the dead letters and failed jobs in backoff that a search finds.

        A dead letter is `replayed`. A job in backoff is `rescheduled` to run now. A job that ended well makes a `new`
        job, whose `retry_of` is the old id, without the idempotency key unless you keep it; if its `unique` text is
        taken, it is a `duplicate`. If its payload is `erased` or `unreadable`, nothing is done, as for jobs that are
        `running`, `waiting` or `unknown`.
        """
        changes = self.changes
        retry = changes.retry(keep_idempotency_key=keep_idempotency_key)
        return self._change(changes, retry, _Selection(ids, all, dry_run, search))

    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        **search: Unpack[JobSearch],
    ) -> BulkResult:
        """Delete ended jobs and dead letters for good: those with these ids, or those that a search finds.

        The results are `deleted`, `not_ended` and `unknown`.
        """
        changes = self.changes
        return self._change(changes, changes.delete(), _Selection(ids, all, dry_run, search))

    def forget(self, ids: Iterable[str]) -> list[str]:
        """Erase the payloads and results of those of these jobs that have ended; return their ids.

        Dead letters keep theirs, because they can be replayed.
        """
        return required(self._client.parts.jobs, "history").forget(list(map(str, ids)))

    def _change(self, changes: JobChanges, change: JobChange, selection: "_Selection") -> BulkResult:
        """Select the jobs first, and then change them: a job that the change moves is not found twice."""
        ids = selection.given_ids(change.name)
        if ids is not None and not selection.dry_run:
            return changes.run(change, ids)
        if ids is not None:
            records = {id: self._client.parts.find(id) for id in ids}
            return BulkResult({id: change.foresee(record) for id, record in records.items()}, dry_run=True)
        found = self._selected(change, selection.search)
        if selection.dry_run:
            return BulkResult({job.id: change.foresee(job) for job in found}, dry_run=True)
        return changes.run(change, [job.id for job in found])

    def _selected(self, change: JobChange, search: JobSearch) -> Iterator[JobRecord]:
        if search.get("state"):
            return self.find(**search).records()
        limit = search.get("limit")
        every: JobSearch = {**search, "state": change.states, "limit": None}
        return islice(filter(change.wanted, self.find(**every).records()), limit)

    def _check_known(self, ids: Iterable[str]) -> None:
        """Raise for an unknown id at once; an archive beside a broker knows only jobs that have run."""
        parts = self._client.parts
        for id in ids if parts.archive is None else ():
            if parts.find(id) is None:
                raise JobNotFound(f"no job {id!r} is known here; it may have been deleted, or be on another backend")

    def _raise_timeout(self, ids: Sequence[str], seconds: float) -> None:
        records = {id: self._client.parts.find(id) for id in ids}
        waiting = [id for id, record in records.items() if record is None or record.state not in END_STATES]
        more = f" and {len(waiting) - 10} more" if len(waiting) > 10 else ""
        raise ResultTimeout(
            f"{len(waiting)} of {len(ids)} jobs have not ended within {seconds:g} s: {', '.join(waiting[:10])}{more}"
        )

    def _filter(self, search: JobSearch) -> JobFilter:
        state, handler, queue = search.get("state"), search.get("handler"), search.get("queue")
        states, tags = _words(state), _words(search.get("tags"))
        for each in states:
            if each not in JOB_STATES:
                raise InvalidFilter(f"{each!r} is not the state of a job; the states are {', '.join(JOB_STATES)}")
        return JobFilter(
            states=states,
            tags=tags,
            queue=None if queue is None else self._queues.resolve(queue),
            handler=handler.key if isinstance(handler, JobFunction) else handler,
            name=search.get("name"),
            since=self._moment(search.get("newer"), "newer"),
            before=self._moment(search.get("older"), "older"),
            text=search.get("text"),
        )

    def _moment(self, value: Duration | datetime | None, what: str) -> int | None:
        """A time in UTC microseconds; a duration is that long ago."""
        if value is None:
            return None
        if isinstance(value, datetime):
            return to_microseconds(to_moment(value, what))
        return self._clock.now() - round(to_seconds(value, what) * MICROSECOND)

    def _has_meta(self, wanted: Mapping[str, Any]) -> Callable[[JobRecord], bool]:
        wire, parts = self._client.wire, self._client.parts

        def accept(record: JobRecord) -> bool:
            whole = parts.find(record.id)
            try:
                meta = None if whole is None else open_message(whole, wire).meta
            except (PayloadErased, MessageRejected):
                return False
            return isinstance(meta, dict) and all(name in meta and meta[name] == wanted[name] for name in wanted)

        return accept


@dataclass(frozen=True, slots=True)
class _Selection:
    """The jobs that the arguments of a change name."""

    ids: str | Iterable[str] | None
    all: bool
    dry_run: bool
    search: JobSearch

    def given_ids(self, verb: str) -> list[str] | None:
        """The ids, or None if a search selects the jobs; refuses a call that would change every job by mistake."""
        filters = [name for name, value in self.search.items() if value is not None and name != "limit"]
        if (self.ids is not None) + self.all + bool(filters) != 1:
            raise TypeError(
                f"{verb}() takes the ids of jobs, or a search such as queue=..., or all=True for every job: "
                "give exactly one of them"
            )
        if self.ids is None:
            return None
        return list(dict.fromkeys(map(str, [self.ids] if isinstance(self.ids, str) else self.ids)))


def _words(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _accept_all(record: JobRecord) -> bool:  # noqa: ARG001 - one signature for every check
    return True
