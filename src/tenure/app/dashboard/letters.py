"""The page of dead letters: in groups of equal errors, by handler or one by one, and the panel that replays them."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl

from msgspec import Struct, structs

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import FilterFault, JobQuery, from_parameters, parse, query_string
from tenure.app.dashboard.jobs import Chip
from tenure.app.dashboard.letter_dry_run import DryRun, shared_dry_run
from tenure.app.dashboard.letter_index import Letter, LetterSnapshot, shared_letters
from tenure.app.dashboard.letter_selection import LetterSelection, letter_fault
from tenure.app.dashboard.letter_trial import Trial, last_trial
from tenure.clock import to_datetime
from tenure.definition.job_info import JobInfo

Grouping = Literal["error", "handler", "none"]

FIRST_LETTERS = 5  # shown in an open group
PAGE_LETTERS = 50
MAX_GROUPS = 100
_TRIAL_LETTERS = 10
_DEATH_BARS = 24  # points of the line of deaths over time
_SHORT_MESSAGE = 30  # characters: shorter messages stand beside the class of the error
_SHOWN_FOLDERS = 3  # the last parts of the path of a file
_EXCLUDABLE = ("queue", "handler", "tag", "reason", "error", "text")


class LetterRow(Struct, frozen=True, kw_only=True):
    """One letter in a list; `error` is its last one, as `Type: message`."""

    id: str
    queue: str
    handler: str
    name: str | None
    reason: str | None
    error: str | None
    tries: int
    died_at: datetime


class LetterGroup(Struct, frozen=True, kw_only=True):
    """Letters that died alike; `title` and `text` are those of the newest. `deaths` are counts over equal times.

    `letters` are the first ones of the group that is open.
    """

    key: str
    title: str
    text: str
    handler: str
    queues: tuple[str, ...]
    reasons: tuple[str, ...]
    count: int
    first_at: datetime
    last_at: datetime
    deaths: tuple[int, ...]
    letters: tuple[LetterRow, ...] = ()


class ReplayPanel(Struct, frozen=True, kw_only=True):
    """What a replay of the selected letters would do, and how its trial goes.

    `filter`, `group`, `before` and `token` are fields of the command that replays them; `first` is the suggested
    number of the trial. `is_followed`: how a trial goes can be told, because there is an audit log.
    """

    total: int
    filter: str
    group: str
    before: int
    token: str
    first: int
    is_followed: bool
    dry_run: DryRun | None = None
    trial: Trial | None = None


class LettersPage(Struct, frozen=True, kw_only=True):
    """`total` letters match, of `read` that were read; `known` is how many there are, if the backend counts them.

    `is_cut` tells that there are more than were read; `has_newest` that those read are the newest.
    `oldest_is_deleted_at` is when the oldest letter reaches its retention of so many days.
    """

    at: datetime
    by: Grouping = "error"
    chips: tuple[Chip, ...] = ()
    filter: str = ""
    before: int = 0
    group: str = ""
    groups: tuple[LetterGroup, ...] = ()
    group_count: int = 0
    letters: tuple[LetterRow, ...] = ()
    first: int = 0
    next: str | None = None
    total: int = 0
    read: int = 0
    known: int | None = None
    is_cut: bool = False
    has_newest: bool = True
    retention_days: float = 0.0
    oldest_is_deleted_at: datetime | None = None
    panel: ReplayPanel | None = None
    fault: FilterFault | None = None
    unavailable: str | None = None
    status: int = 200
    redirect: str | None = None

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The parameters of the filter."""
        return tuple(parse_qsl(self.filter))


class LettersQuery(Struct, frozen=True, kw_only=True, rename={f"not_{key}": f"-{key}" for key in _EXCLUDABLE}):
    """`by` forms the groups, `group` opens one; `after` is where a page of single letters begins.

    `q` is a text of the filter bar, which adds to the other parameters.
    """

    page: ClassVar[str] = "dead"
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
    text: tuple[str, ...] = ()
    not_text: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    q: str = ""
    by: Grouping = "error"
    group: str = ""
    after: str = ""

    def read(self, sources: Sources, access: Access) -> LettersPage:
        query, now = self.filter().merged(parse(self.q)), sources.now
        if self.q and not letter_fault(query):
            return LettersPage(at=now, redirect=address(query, self.by))
        known: dict[str, Any] = {
            "at": now,
            "by": self.by,
            "chips": tuple(_chips(query, self.by)),
            "filter": query.canonical(),
            "before": sources.app.clock.now(),
        }
        if sources.parts.dead_letters is None:
            return LettersPage(**known, unavailable="This backend keeps no dead letters.")
        if fault := letter_fault(query):
            return LettersPage(**known, fault=fault, status=400)
        snapshot = shared_letters(sources)
        found = LetterSelection(filter=query.canonical()).among(snapshot, sources, access)
        chosen = [letter for letter in found if letter.is_in(self.group)] if self.group else found
        shown = (
            _list(chosen, self.after, access, sources) if self.by == "none" else self._groups(found, access, sources)
        )
        is_chosen = bool(self.group or query.terms) and access.may("dead.replay")
        panel = self._panel(query, chosen, sources, access) if is_chosen else None
        return LettersPage(
            **known,
            **shown,
            **_bounds(snapshot, sources, access),
            group=self.group,
            total=len(chosen) if self.by == "none" else len(found),
            panel=panel,
        )

    def filter(self) -> JobQuery:
        """The filter of the address, without `q`."""
        pairs: list[tuple[str, str]] = [
            ("since", self.since),
            ("until", self.until),
            *(("id", each) for each in self.id),
        ]
        for key in _EXCLUDABLE:
            pairs += [(key, value) for value in getattr(self, key)]
            pairs += [(f"-{key}", value) for value in getattr(self, f"not_{key}")]
        return from_parameters(pairs)

    def _groups(self, found: Sequence[Letter], access: Access, sources: Sources) -> dict[str, Any]:
        groups: dict[str, list[Letter]] = {}
        for letter in found:
            groups.setdefault(letter.by_error if self.by == "error" else letter.by_handler, []).append(letter)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0].record.handler, item[0]))
        shown = ordered[:MAX_GROUPS] + [item for item in ordered[MAX_GROUPS:] if item[0] == self.group]
        made = (_group(key, letters, key == self.group, access, sources) for key, letters in shown)
        return {"groups": tuple(made), "group_count": len(ordered)}

    def _panel(self, query: JobQuery, chosen: Sequence[Letter], sources: Sources, access: Access) -> ReplayPanel | None:
        selection, now = LetterSelection(filter=query.canonical(), group=self.group), sources.app.clock.now()
        trial = last_trial(sources, access, selection)
        if not chosen and trial is None:
            return None
        return ReplayPanel(
            total=len(chosen),
            filter=selection.filter,
            group=selection.group,
            before=now,
            token=f"{now:x}{self.group}",
            first=max(1, min(_TRIAL_LETTERS, len(chosen))),
            is_followed=sources.parts.audit is not None and sources.parts.jobs is not None,
            dry_run=shared_dry_run(sources, access, selection) if chosen else None,
            trial=trial,
        )


def address(query: JobQuery, by: Grouping = "error", **more: str) -> str:
    """The path of the page with this filter."""
    pairs = [*query.pairs(), *([("by", by)] if by != "error" else []), *more.items()]
    return f"/dead?{query_string(pairs)}" if pairs else "/dead"


def _chips(query: JobQuery, by: Grouping) -> Iterator[Chip]:
    for term in query.terms:
        without = address(query.without(term), by).partition("?")[2]
        yield Chip(key=term.key, value=", ".join(term.shown), excluded=term.excluded, query=without)


def _bounds(snapshot: LetterSnapshot, sources: Sources, access: Access) -> dict[str, Any]:
    """How much was read, and when the oldest letter is deleted."""
    figures, days = sources.figures, sources.app.settings.retention.dead
    seen = [letter for letter in snapshot.letters if access.sees(letter.record.queue)]
    counted = sum(each.dead for each in figures.queues if access.sees(each.name)) if figures.counts_known else None
    oldest = seen[-1].died if seen else None
    if snapshot.is_cut and snapshot.has_newest:
        oldest = None  # it was not read
    return {
        "read": len(seen),
        "known": counted if counted is None else max(counted, len(seen)),
        "is_cut": snapshot.is_cut,
        "has_newest": snapshot.has_newest,
        "retention_days": days,
        "oldest_is_deleted_at": to_datetime(oldest) + timedelta(days=days) if oldest and days else None,
    }


def _list(chosen: Sequence[Letter], after: str, access: Access, sources: Sources) -> dict[str, Any]:
    """A page of single letters, the newest first; `after` is the place of the last one of the page before."""
    start = 0
    if after:
        place = _place_of(after)
        start = next((at for at, letter in enumerate(chosen) if _place(letter) < place), len(chosen))
    page = chosen[start : start + PAGE_LETTERS]
    more = start + PAGE_LETTERS < len(chosen)
    return {
        "letters": tuple(_row(letter, access, sources) for letter in page),
        "first": start + 1 if page else 0,
        "next": f"{page[-1].died}-{page[-1].record.id}" if more else None,
    }


def _place(letter: Letter) -> tuple[int, str]:
    return letter.died, letter.record.id


def _place_of(text: str) -> tuple[int, str]:
    died, _, id = text.partition("-")
    return (int(died) if died.isascii() and died.isdigit() else 0), id


def _group(key: str, letters: Sequence[Letter], is_open: bool, access: Access, sources: Sources) -> LetterGroup:
    newest = letters[0]
    title, text = _heading(newest, key == newest.by_handler, letters, access, sources)
    records = [letter.record for letter in letters]
    return LetterGroup(
        key=key,
        title=title,
        text=text,
        handler=newest.record.handler,
        queues=tuple(sorted({record.queue for record in records})),
        reasons=tuple(sorted({record.reason for record in records if record.reason})),
        count=len(letters),
        first_at=to_datetime(letters[-1].died),
        last_at=to_datetime(newest.died),
        deaths=_deaths([letter.died for letter in letters]),
        letters=tuple(_row(letter, access, sources) for letter in letters[:FIRST_LETTERS]) if is_open else (),
    )


def _heading(
    newest: Letter, by_handler: bool, letters: Sequence[Letter], access: Access, sources: Sources
) -> tuple[str, str]:
    """The title and the text of a group; a short message stands in the title, and its place in the text."""
    kind, message, place = _error(newest, access, sources)
    if by_handler:
        kinds = len({letter.by_error for letter in letters})
        last = f"{kind}: {message}" if message else kind
        return newest.record.handler, f"{kinds} different errors, the last: {last}" if kinds > 1 else last
    if message and place and len(message) <= _SHORT_MESSAGE:
        return f"{kind}: {message}", place
    return kind, message or place or "no error was recorded"


def _error(letter: Letter, access: Access, sources: Sources) -> tuple[str, str, str | None]:
    """The class, the message and the place of the last error as this user may see them."""
    failures = _shown(letter, access, sources).failures
    if not failures:
        return letter.record.reason or "unknown", "", None
    place = letter.record.failures[-1].place if letter.record.failures else None
    short = None if place is None else "/".join(place.rsplit("/", _SHOWN_FOLDERS)[-_SHOWN_FOLDERS:])
    return failures[-1].error_type or "", failures[-1].error or "", short


def _row(letter: Letter, access: Access, sources: Sources) -> LetterRow:
    shown = _shown(letter, access, sources)
    return LetterRow(
        id=letter.record.id,
        queue=letter.record.queue,
        handler=letter.record.handler,
        name=shown.name,
        reason=shown.reason,
        error=shown.error,
        tries=letter.record.runs,
        died_at=to_datetime(letter.died),
    )


def _shown(letter: Letter, access: Access, sources: Sources) -> JobInfo:
    """The letter as this user may see it, without payload and meta."""
    mask = sources.redactor.text
    failures = tuple(structs.replace(failure, message=mask(failure.message)) for failure in letter.record.failures)
    info = sources.app.jobs.info(structs.replace(letter.record, failures=failures), in_list=True)
    return info if access.redact is None else access.redact(info)


def _deaths(times: Iterable[int]) -> tuple[int, ...]:
    """How many died in each of equal parts of the time between the first and the last death."""
    moments = list(times)
    first, last = min(moments), max(moments)
    if first == last:
        return (0, len(moments), 0)
    bars = [0] * _DEATH_BARS
    for moment in moments:
        bars[min(_DEATH_BARS - 1, (moment - first) * _DEATH_BARS // (last - first))] += 1
    return tuple(bars)
