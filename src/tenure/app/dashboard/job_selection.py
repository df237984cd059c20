"""Which jobs an action on many jobs concerns, counted for the user who must confirm it, and found again to do it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import from_canonical
from tenure.app.dashboard.job_counts import state_counts
from tenure.app.dashboard.job_search import MAX_READ, FilterSearch, job_search
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.errors import ActionRefused
from tenure.events import JOB_STATES

STEP = 500  # jobs that are changed between two looks at the request to stop
MAX_SELECTED = 1_000_000
MAX_IDS = 1000
_COUNT_SECONDS = 1.0


class Selection(Struct, frozen=True, kw_only=True):
    """The jobs with these ids; or `all` jobs of a filter that were enqueued before a time, in UTC microseconds."""

    ids: tuple[str, ...] = ()
    all: bool = False
    filter: str = ""
    before: int = 0

    def check(self) -> None:
        """Raise unless it names jobs."""
        if self.all:
            from_canonical(self.filter)
        elif not self.ids:
            raise ActionRefused("no job is selected: give the ids of jobs, or all jobs of a filter")
        elif len(self.ids) > MAX_IDS:
            raise ActionRefused(f"at most {MAX_IDS} jobs can be given by their ids; use a filter for more")

    def __str__(self) -> str:
        if not self.all:
            return ", ".join(self.ids)
        until = f", enqueued before {to_datetime(self.before).isoformat()}" if self.before else ""
        return f"{from_canonical(self.filter) or 'all jobs'}{until}"


class ActionEffects(Struct, frozen=True, kw_only=True):
    """What an action does to jobs: `effects` by state; jobs of other states are left alone.

    `states` are those that a filter without states selects. `concerns` tells which of these jobs it changes.
    """

    states: tuple[str, ...]
    effects: Mapping[str, str]
    concerns: Callable[[JobRecord], bool] = bool


class SelectionCount(Struct, frozen=True, kw_only=True):
    """How many jobs of each state would be changed and left alone; with `is_more` there are more of them.

    `first` is one of the jobs, if they were given by ids.
    """

    changed: Counter[str]
    left: Counter[str]
    unknown: int = 0
    is_more: bool = False
    counted_at: datetime
    first: JobRecord | None = None

    @property
    def total(self) -> int:
        return sum(self.changed.values())


def tally(sources: Sources, access: Access, selection: Selection, change: ActionEffects) -> SelectionCount:
    """Count what an action would do; changes nothing."""
    if not selection.all:
        return _tally_ids(sources, access, selection, change)
    search = _search(sources, access, selection, change)
    concerns_all = change.concerns is bool or "delayed" not in search.query.states()
    if search.query.keys <= {"state", "queue"} and concerns_all:
        known = _known_tally(sources, search, selection, change)
        if known is not None:
            return known
    found = search.page(MAX_READ, seconds=_COUNT_SECONDS)
    counts = Counter(job.state for job in found.jobs if _is_meant(job, selection, change))
    is_more = found.place is not None or found.stopped_after is not None
    return SelectionCount(changed=counts, left=Counter(), is_more=is_more, counted_at=sources.now)


def batches(sources: Sources, access: Access, selection: Selection, change: ActionEffects) -> Iterator[list[str]]:
    """The ids of the jobs, in lists of at most STEP; empty lists come while the jobs are still selected.

    All are selected before the first one is changed, because a change moves jobs in and out of a filter.
    """
    ids: list[str] = []
    if not selection.all:
        ids = [job.id for job in _visible(sources, access, selection)]
    else:
        for found in _search(sources, access, selection, change).all():
            ids += [job.id for job in found if _is_meant(job, selection, change)]
            if len(ids) >= MAX_SELECTED:
                break
            yield []
    ids = list(dict.fromkeys(ids))[:MAX_SELECTED]
    for start in range(0, len(ids), STEP):
        yield ids[start : start + STEP]


def _search(sources: Sources, access: Access, selection: Selection, change: ActionEffects) -> FilterSearch:
    """A filter that names no states selects only those that the action changes."""
    query = from_canonical(selection.filter).replaced("sort")
    if query.wanted("state"):
        return job_search(sources, access, query)
    states = [state for state in change.states if state not in query.unwanted("state")]
    if not states:
        raise ActionRefused(f"there is nothing to change: the filter excludes {', '.join(change.states)} jobs")
    return job_search(sources, access, query.replaced("state", *states))


def _is_meant(job: JobRecord, selection: Selection, change: ActionEffects) -> bool:
    is_old = not selection.before or job.enqueued_at <= selection.before
    return is_old and job.state in change.effects and change.concerns(job)


def _visible(sources: Sources, access: Access, selection: Selection) -> list[JobRecord]:
    found = (sources.parts.find(id) for id in dict.fromkeys(selection.ids) if id.isprintable())
    return [job for job in found if job is not None and access.sees(job.queue)]


def _tally_ids(sources: Sources, access: Access, selection: Selection, change: ActionEffects) -> SelectionCount:
    jobs = _visible(sources, access, selection)
    meant = [job for job in jobs if job.state in change.effects and change.concerns(job)]
    return SelectionCount(
        changed=Counter(job.state for job in meant),
        left=Counter(job.state for job in jobs) - Counter(job.state for job in meant),
        unknown=len(set(selection.ids)) - len(jobs),
        counted_at=sources.now,
        first=jobs[0] if jobs else None,
    )


def _known_tally(
    sources: Sources, search: FilterSearch, selection: Selection, change: ActionEffects
) -> SelectionCount | None:
    """From the figures; None if they do not tell."""
    counts = state_counts(sources, search)
    named = from_canonical(selection.filter).states() or JOB_STATES
    changed = {state: counts[state] for state in change.effects if state in search.query.states()}
    if any(count is None for count in changed.values()):
        return None
    left = {state: counts[state] for state in named if state not in changed}
    return SelectionCount(
        changed=Counter({state: count.value for state, count in changed.items() if count}),
        left=Counter({state: count.value for state, count in left.items() if count}),
        is_more=any(count.is_more for count in changed.values() if count),
        counted_at=sources.figures.at,
    )
