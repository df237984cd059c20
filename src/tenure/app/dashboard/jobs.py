"""The jobs page: a filter kept in the address, tabs with counts, and pages of jobs that cost what they show."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, ClassVar
from urllib.parse import parse_qsl, quote

from msgspec import Meta, Struct, structs

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import SORTS, FilterFault, JobQuery, fault_of, from_parameters, parse, query_string
from tenure.app.dashboard.job_counts import Count, state_counts, sum_counts
from tenure.app.dashboard.job_rows import JobRow, job_rows
from tenure.app.dashboard.job_search import Found, PageCursor, decode_cursor, ids_like, job_search
from tenure.backends.url import without_secrets
from tenure.errors import InvalidFilter
from tenure.events import END_STATES, JOB_STATES

DEFAULT_SIZE, SMALLEST_SIZE, LARGEST_SIZE = 50, 25, 200
_HINTS, _HINT_SECONDS = 3, 0.01  # wider filters that are tried when nothing matches, and the time for each
_TRAIL = 20  # pages that "Newer" remembers; behind them it leads to the first page
_NO_LISTS = (
    "This broker shows no lists of jobs, and no store is set beside it. Set store to a database or Redis that all "
    "workers share, such as redis://host: workers then record the jobs that they run."
)
_ID = re.compile(r"[0-9a-fA-F-]{8,36}")
# What is left out first when nothing matches.
_NARROW_KEYS = (
    *("id", "text", "error", "reason", "worker", "schedule", "tag", "handler", "until", "since", "state", "queue"),
)
# The states of the jobs that an action on a whole filter changes; a retry also tries failed jobs in backoff again.
CHANGED_STATES: dict[str, tuple[str, ...]] = {
    "retry": ("dead",),
    "cancel": ("ready", "delayed", "parked", "leased"),
    "reschedule": ("ready", "delayed", "parked"),
    "delete": END_STATES,
}


def parameter_name(field: str) -> str:
    """The name of a field in the address: what is excluded has a minus sign."""
    return f"-{field.removeprefix('not_')}" if field.startswith("not_") else field


def filter_empty(texts: Iterable[str | None]) -> list[str]:
    return [text for text in texts if text]


class Chip(Struct, frozen=True, kw_only=True):
    """A part of the filter; `query` is the address without it."""

    key: str
    value: str
    query: str
    excluded: bool = False


class Tab(Struct, frozen=True, kw_only=True):
    """The jobs of one state, or of all without a state, under the rest of the filter."""

    state: str | None
    count: Count | None
    query: str
    is_current: bool


class Sort(Struct, frozen=True, kw_only=True):
    """An order of the rows; `name` is empty for the usual one."""

    name: str
    query: str
    is_current: bool


class Hint(Struct, frozen=True, kw_only=True):
    """How many jobs match without one term, and the address of that."""

    term: str
    count: Count
    query: str


class FirstRun(Struct, frozen=True, kw_only=True):
    """For a user without jobs: the place of the jobs, the URL that the app has, and whether a worker is alive."""

    place: str
    url: str
    has_worker: bool


class BulkAction(Struct, frozen=True, kw_only=True):
    """An action that the user may do; `all` is how many jobs of the filter it would change, if that is known."""

    key: str
    all: Count | None = None


class JobsPage(Struct, frozen=True, kw_only=True):
    """A page of jobs. `filter` is the address of the filter, `text` the same as people write it.

    With a `fault` nothing was searched. `unavailable` says why the backend has no lists.
    `first` is the number of the first row. `order` says how the rows are ordered.
    `stopped_after`: so many jobs were read when the search gave up; `older` goes on from there. `before` is the time of
    the page, in UTC microseconds: actions on all jobs of the filter leave later ones alone. `redirect` is the address
    of a job or of the filter that a text means; there is nothing else then.
    """

    at: datetime
    redirect: str | None = None
    filter: str = ""
    text: str = ""
    before: int = 0
    size: int = DEFAULT_SIZE
    chips: tuple[Chip, ...] = ()
    tabs: tuple[Tab, ...] = ()
    sorts: tuple[Sort, ...] = ()
    rows: tuple[JobRow, ...] = ()
    first: int = 1
    total: Count | None = None
    older: str | None = None
    newer: str | None = None
    order: str = ""
    stopped_after: int | None = None
    fault: FilterFault | None = None
    hint: Hint | None = None
    first_run: FirstRun | None = None
    unavailable: str | None = None
    actions: tuple[BulkAction, ...] = ()

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The parameters of the filter, for a form that adds to it."""
        size = [] if self.size == DEFAULT_SIZE else [("size", str(self.size))]
        return [*parse_qsl(self.filter), *size]

    @property
    def sort(self) -> str:
        return next((sort.name for sort in self.sorts if sort.is_current), "")

    @property
    def has_until(self) -> bool:
        return any(chip.key == "until" for chip in self.chips)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return 400 if self.fault else 200


class JobsQuery(Struct, frozen=True, kw_only=True, rename=parameter_name):
    """The terms of the filter, by key. `q` is a text that is added to them. `size` is the number of rows.

    `after` is where the page begins, `trail` where the pages before it began.
    """

    page: ClassVar[str] = "jobs"
    state: tuple[str, ...] = ()
    not_state: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    not_queue: tuple[str, ...] = ()
    handler: tuple[str, ...] = ()
    not_handler: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    not_tag: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    not_reason: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    not_error: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    not_worker: tuple[str, ...] = ()
    schedule: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    text: tuple[str, ...] = ()
    not_text: tuple[str, ...] = ()
    sort: str = ""
    q: str = ""
    size: Annotated[int, Meta(ge=SMALLEST_SIZE, le=LARGEST_SIZE)] = DEFAULT_SIZE
    after: str = ""
    trail: str = ""

    @property
    def filter(self) -> JobQuery:
        own = {
            name: value for name, value in structs.asdict(self).items() if name not in ("q", "size", "after", "trail")
        }
        return from_parameters(
            (parameter_name(name), value)
            for name, values in own.items()
            for value in ((values,) if isinstance(values, str) else values)
        )

    def read(self, sources: Sources, access: Access) -> JobsPage:
        if sources.parts.jobs is None:
            return JobsPage(at=sources.now, unavailable=_NO_LISTS)
        q = self.q.strip()
        if q and not self.filter.terms and (id := find_id(sources, access, q)) is not None:
            return JobsPage(at=sources.now, redirect=f"/jobs/{quote(id, safe='')}")
        filter = self.filter.merged(parse(q))
        fault = fault_of(filter)
        listing = _Listing(filter, self.size, self.after, tuple(filter_empty(self.trail.split(".")))[-_TRAIL:])
        if q and fault is None:
            return JobsPage(at=sources.now, redirect=f"/jobs?{listing.address(filter)}")
        if fault is None:
            try:
                return listing.page(sources, access)
            except InvalidFilter as error:
                text, start = f"This page can not be shown: {error}.", listing.address(filter)
                fault = FilterFault(text=text, suggestion="the first page", query=start)
        return structs.replace(listing.frame(sources), fault=fault)


class _Listing(Struct, frozen=True):
    """One page of a filter."""

    filter: JobQuery
    size: int
    after: str
    trail: tuple[str, ...]

    def address(self, filter: JobQuery, after: str = "", trail: Iterable[str] = ()) -> str:
        """The query string of another filter or page."""
        size = [] if self.size == DEFAULT_SIZE else [("size", str(self.size))]
        pages = [("after", after), ("trail", ".".join(trail))]
        return query_string([*filter.pairs(), *size, *(pair for pair in pages if pair[1])])

    def frame(self, sources: Sources) -> JobsPage:
        """The page without jobs."""
        filter, sort = self.filter, self.filter.one("sort") or ""
        states = filter.states()
        return JobsPage(
            at=sources.now,
            filter=filter.canonical(),
            text=str(filter),
            before=sources.app.clock.now(),
            size=self.size,
            chips=tuple(
                Chip(key=term.key, value=", ".join(term.shown), excluded=term.excluded, query=self.address(rest))
                for term in filter.terms
                if (rest := filter.without(term)) is not None and term.key != "sort"
            ),
            tabs=tuple(
                Tab(
                    state=state,
                    count=None,
                    query=self.address(filter.replaced("state", *filter_empty([state]))),
                    is_current=states == (state,) if state else "state" not in filter.keys,
                )
                for state in (None, *JOB_STATES)
            ),
            sorts=tuple(
                Sort(
                    name=name,
                    query=self.address(filter.replaced("sort", *filter_empty([name]))),
                    is_current=name == sort,
                )
                for name in ("", *SORTS)
            ),
        )

    def page(self, sources: Sources, access: Access) -> JobsPage:
        search = job_search(sources, access, self.filter)
        cursor = decode_cursor(self.after) if self.after else None
        found = search.page(self.size, cursor.place if cursor else None)
        shown = cursor.shown if cursor else 0
        frame, counts = self.frame(sources), state_counts(sources, search)
        total = self._total(found, counts, shown)
        older = None
        if found.place is not None:
            after = PageCursor(shown + len(found.jobs), found.place).encode()
            trail = [*self.trail, self.after][-_TRAIL:] if self.after else self.trail
            older = self.address(self.filter, after, trail)
        is_empty = not found.jobs and found.place is None and cursor is None
        return structs.replace(
            frame,
            tabs=tuple(structs.replace(tab, count=_tab_count(tab.state, counts)) for tab in frame.tabs),
            rows=job_rows(sources, access, found.jobs),
            first=shown + 1,
            total=total,
            older=older,
            newer=self._newer(),
            order=found.order,
            stopped_after=found.stopped_after,
            hint=self._hint(sources, access) if is_empty and self.filter.terms else None,
            first_run=_first_run(sources) if is_empty and not self.filter.terms else None,
            actions=self._actions(sources, access, counts),
        )

    def _newer(self) -> str | None:
        if not self.after:
            return None
        return self.address(self.filter, self.trail[-1] if self.trail else "", self.trail[:-1])

    def _total(self, found: Found, counts: Mapping[str, Count | None], shown: int) -> Count | None:
        if found.place is None and found.stopped_after is None:
            return Count(shown + len(found.jobs))
        return sum_counts(counts[state] for state in self.filter.states() or JOB_STATES)

    def _hint(self, sources: Sources, access: Access) -> Hint | None:
        """How many jobs there are without one of the narrowest parts of the filter."""
        narrow = sorted(self.filter.terms, key=lambda term: (*_NARROW_KEYS, "sort").index(term.key))
        for term in narrow[:_HINTS]:
            wider = self.filter.without(term)
            search = job_search(sources, access, wider)
            known = sum_counts(state_counts(sources, search)[state] for state in wider.states() or JOB_STATES)
            if known is None:
                found = search.page(LARGEST_SIZE, seconds=_HINT_SECONDS)
                known = Count(len(found.jobs), found.place is not None)
            if known.value:
                return Hint(term=str(term), count=known, query=self.address(wider))
        return None

    def _actions(self, sources: Sources, access: Access, counts: Mapping[str, Count | None]) -> tuple[BulkAction, ...]:
        states = self.filter.states()
        return tuple(
            BulkAction(key=key, all=_changed(key, states, counts))
            for key in CHANGED_STATES
            if access.may(f"jobs.{key}") and (sources.parts.control is not None or key in ("retry", "delete"))
        )


def find_id(sources: Sources, access: Access, text: str) -> str | None:
    """The one job that a text names: by its id, the beginning of its id, or the last characters that lists show."""
    value = text.removeprefix("id:").strip().removeprefix("…")
    parts = sources.parts
    if parts.jobs is None or not value or "\0" in value or not value.isprintable():
        return None
    if not _ID.fullmatch(value):
        exact = parts.find(value)
        return exact.id if exact is not None and access.sees(exact.queue) else None
    found = [job for job in ids_like(parts, value, 2) if access.sees(job.queue)]
    if not found:
        found = job_search(sources, access, parse(f"id:{value}")).page(2).jobs
    return found[0].id if len(found) == 1 else None


def _tab_count(state: str | None, counts: Mapping[str, Count | None]) -> Count | None:
    return sum_counts(counts.values()) if state is None else counts[state]


def _changed(key: str, states: tuple[str, ...], counts: Mapping[str, Count | None]) -> Count | None:
    """How many jobs an action changes; a retry of all states would have to read the failed ones."""
    changed = CHANGED_STATES[key]
    if key == "retry":
        return (
            None
            if not states or "delayed" in states
            else sum_counts(counts[state] for state in states if state in END_STATES)
        )
    return sum_counts(counts[state] for state in changed if not states or state in states)


def _first_run(sources: Sources) -> FirstRun:
    app, file = sources.app, sources.app.backend.file
    url = without_secrets(app.settings.url)
    workers = sources.figures.workers
    return FirstRun(place=url if file is None else file.path.name, url=url, has_worker=bool(workers))
