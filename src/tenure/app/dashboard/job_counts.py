"""How many jobs each state has under a filter, as far as that can be told without reading jobs."""

from collections.abc import Iterable

from msgspec import Struct

from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import moment_of
from tenure.app.dashboard.job_search import FilterSearch
from tenure.backends.parts import QueueCounts
from tenure.events import END_STATES, LIVE_STATES

MAX_COUNT = 10_000  # ended jobs are counted so far
_SHARED_SECONDS = 5.0


class Count(Struct, frozen=True):
    """A number of jobs; with `is_more` there are at least so many."""

    value: int
    is_more: bool = False


def sum_counts(counts: Iterable[Count | None]) -> Count | None:
    """All together; None if one of them is not known."""
    known = list(counts)
    if any(each is None for each in known):
        return None
    found = [each for each in known if each is not None]
    return Count(sum(each.value for each in found), any(each.is_more for each in found))


def state_counts(sources: Sources, search: FilterSearch) -> dict[str, Count | None]:
    """The jobs of each state under the rest of the filter; None where only reading them would tell.

    The counts of live jobs and dead letters are those of the last figures. Ended jobs are counted by an index.
    """
    narrow = search.query.keys - {"state", "queue", "sort"}
    counts: dict[str, Count | None] = dict.fromkeys((*LIVE_STATES, *END_STATES))
    figures, counter = sources.figures, sources.parts.queues
    if not narrow and figures.counts_known:
        seen = [each for each in figures.queues if search.wants_queue(each.name)]
        for state in (*LIVE_STATES, "dead"):
            counts[state] = Count(sum(getattr(each, state) for each in seen))
    if narrow <= {"since"} and counter is not None and sources.parts.jobs is not None:
        for state in END_STATES:
            if counts[state] is None:
                counts[state] = _ended(sources, counter, search, state)
    return counts


def _ended(sources: Sources, counter: QueueCounts, search: FilterSearch, state: str) -> Count:
    since = search.query.one("since")
    queues = [*search.query.wanted("queue"), "|", *search.query.unwanted("queue"), "|", *(search.queues or ("*",))]
    name = f"ended jobs: {state} since {since}: {queues}"

    def read() -> Count:
        first = 0 if since is None else moment_of(since, search.now)
        total = 0
        for queue in search.queues_with(state):
            total += counter.ended_since(state, queue, first, MAX_COUNT + 1 - total)
            if total > MAX_COUNT:
                return Count(MAX_COUNT, is_more=True)
        return Count(total)

    return sources.shared(name, _SHARED_SECONDS, read)
