"""Which dead letters a page shows, or a command changes: those with these ids, or those of a filter and a group.

A page chooses among the letters that all viewers share; a command reads them from the backend again.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, structs

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import FilterFault, JobQuery, fault_of, from_canonical
from tenure.app.dashboard.job_match import Match, job_match, queue_match, texts_of
from tenure.app.dashboard.letter_index import MAX_LETTERS, Letter, LetterSnapshot, letter_of
from tenure.backends.job_filter import DEAD_LETTER_PAGE, JobFilter, search_dead_letters
from tenure.backends.records import JobRecord
from tenure.errors import ActionRefused, InvalidFilter
from tenure.suggestions import nearest

FILTER_KEYS = ("queue", "handler", "tag", "reason", "error", "id", "since", "until", "text")
LAST_MOMENT = 1 << 62
_SEARCHED_IN_ERRORS = ("error", "text")


class FoundLetter(NamedTuple):
    """A letter, and its record with the message."""

    letter: Letter
    record: JobRecord


class LetterSelection(Struct, frozen=True, kw_only=True):
    """The letters of a filter and a group, or with `is_by_id` those with these ids.

    `filter` is a query string as that of the page; letters that died at or after `before` are left alone.
    """

    ids: tuple[str, ...] = ()
    is_by_id: bool = False
    filter: str = ""
    group: str = ""
    before: int = 0

    def query(self) -> JobQuery:
        query = from_canonical(self.filter)
        if fault := letter_fault(query):
            raise InvalidFilter(fault.text)
        return query

    def among(self, snapshot: LetterSnapshot, sources: Sources, access: Access) -> list[Letter]:
        """The selected ones of these letters."""
        return list(filter(self._is_selected(sources, access), snapshot.letters))

    def search(
        self, sources: Sources, access: Access, *, since: int | None = None, max_pages: int | None = None
    ) -> Iterator[list[FoundLetter]]:
        """The selected letters as the backend has them now, the oldest first, in lists of at most 500.

        A list is read when the caller has taken the one before, so the caller may replay or delete what it got.
        `since` leaves out those that died before; `max_pages` limits how many times 500 letters are read.
        """
        is_selected = self._is_selected(sources, access)
        for page in islice(self._pages(sources, access, since), max_pages):
            found = [FoundLetter(letter_of(record), record) for record in page]
            chosen = [each for each in found if is_selected(each.letter)]
            for first in range(0, len(chosen), DEAD_LETTER_PAGE):
                yield chosen[first : first + DEAD_LETTER_PAGE]

    def _is_selected(self, sources: Sources, access: Access) -> Callable[[Letter], bool]:
        matches, ids, group = letter_match(self.query(), sources, access), set(self.ids), self.group
        before = self.before or LAST_MOMENT
        return lambda letter: (
            (letter.record.id in ids if self.is_by_id else True)
            and (not group or letter.is_in(group))
            and letter.died < before
            and matches(letter.record)
        )

    def _pages(self, sources: Sources, access: Access, since: int | None) -> Iterator[list[JobRecord]]:
        app = sources.app
        letters = sources.parts.dead_letters
        if letters is None:
            return
        has_index = app.backend.jobs is not None
        if self.is_by_id and has_index:
            for first in range(0, len(self.ids), DEAD_LETTER_PAGE):
                yield list(app.dead_letters().get(self.ids[first : first + DEAD_LETTER_PAGE]))
            return
        before = self.before or app.clock.now()  # a letter that dies again meanwhile is not taken twice
        # Each page of a broker reads all its letters, so it is asked for one large page.
        size = DEAD_LETTER_PAGE if has_index else MAX_LETTERS
        for queue in self._queues(sources, access):
            yield from search_dead_letters(letters, JobFilter(queue=queue, since=since, before=before), size)

    def _queues(self, sources: Sources, access: Access) -> list[str] | list[None]:
        """The queues to search one by one, or None for all of them."""
        named = [sources.queue_name(each) for each in self.query().wanted("queue")]
        if named and not any(each.endswith("*") for each in named):
            return [queue for queue in dict.fromkeys(named) if access.sees(queue)]
        return [None] if access.queues is None else list(access.queues)


def check_selection(selection: LetterSelection, sources: Sources) -> None:
    """Refuse what selects nothing."""
    if sources.parts.dead_letters is None:
        raise ActionRefused("this backend has no dead letters")
    if selection.is_by_id and not selection.ids:
        raise ActionRefused("no dead letters were chosen: give their ids, or all with a filter or a group")
    selection.query()


def letter_match(query: JobQuery, sources: Sources, access: Access) -> Match:
    """Whether a letter matches a filter, and lies in a queue that the user sees.

    Words are not searched in errors that are shown to the user only after `access.redact`.
    """
    wants_queue = queue_match(query, access.sees, sources.queue_name)
    matches = job_match(query, sources.app.clock.now(), wants_queue, texts_of, {})
    if access.redact is None or not query.keys & set(_SEARCHED_IN_ERRORS):
        return matches
    return _without_errors(matches)


def _without_errors(matches: Match) -> Match:
    return lambda record: matches(structs.replace(record, failures=()))


def letter_fault(query: JobQuery) -> FilterFault | None:
    """What is wrong with a filter of dead letters, which have fewer keys than other jobs."""
    foreign = next((term for term in query.terms if term.key not in FILTER_KEYS), None)
    if foreign is None:
        return fault_of(query)
    guess = nearest(foreign.key, FILTER_KEYS)
    fixed = query.without(foreign)
    if guess is not None:
        fixed = fixed.merged(JobQuery((type(foreign)(guess, foreign.values, foreign.excluded),)))
    return FilterFault(
        text=f"Dead letters have no key “{foreign.name}”; they have {', '.join(FILTER_KEYS)}.",
        suggestion=None if guess is None else guess,
        query=None if guess is None else fixed.canonical(),
    )
