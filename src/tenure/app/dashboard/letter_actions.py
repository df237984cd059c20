"""What users do with dead letters: replay them, some of them first as a trial, delete them, and export them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import ClassVar

import msgspec
from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.audit_trail import AuditTrail
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.dashboard.letter_index import Letter, LetterSnapshot, forget_letters, shared_letters
from tenure.app.dashboard.letter_selection import FoundLetter, LetterSelection, check_selection
from tenure.app.dashboard.letter_trial import MAX_TRIAL, has_token, save_trial
from tenure.errors import ActionRefused
from tenure.redaction import escape_controls

_REPEATED = "started_before"
_NAMED_IDS = 20  # in the target of the audit record


class ReplayLetters(Struct, frozen=True, kw_only=True):
    """Make dead letters ready again: those with these ids, or with `all` those of a filter and a group.

    With `first`, only so many of them, as a trial. `token` comes from the form: a trial is started once for it.
    """

    action: ClassVar[str] = "dead.replay"
    ids: tuple[str, ...] = ()
    filter: str = ""
    group: str = ""
    all: bool = False
    before: int = 0
    first: int = 0
    token: str = ""

    def target(self) -> str:
        trial = f", the first {self.first} as a trial" if self.first else ""
        return f"{_target(self.selection())}{trial}"

    def selection(self) -> LetterSelection:
        return _selection(self.ids, self.all, self.filter, self.group, self.before)

    def check(self, sources: Sources, access: Access) -> None:
        check_selection(self.selection(), sources)
        if not 0 <= self.first <= MAX_TRIAL:
            raise ActionRefused(f"a trial has 1 to {MAX_TRIAL} letters, not {self.first}")

    def preview(self, sources: Sources, access: Access) -> Preview:
        count, notes = _counted(self.selection(), sources, access)
        total = min(count, self.first) if self.first else count
        what = f"Replay the first {_letters(total)}?" if self.first else f"Replay {_letters(total)}?"
        keeps = "Letters that die after this page was shown are left alone."
        return Preview(
            question=what,
            verb=f"Replay {total}",
            effects=(Effect("become ready, with fresh counters", "dead", total),),
            notes=(*notes, *(() if self.ids else (keeps,))),
            total=total,
            counted_at=sources.now,
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        selection, replay = self.selection(), sources.app.dead_letters().replay
        if self.first and self.token and has_token(sources, self.token):
            yield {_REPEATED: 1}
        elif self.first:
            yield from self._try_first(selection, replay, sources, access)
        else:
            yield from _changed(selection, replay, "replayed", sources, access)
        sources.recorder.read_now()

    def _try_first(
        self,
        selection: LetterSelection,
        replay: Callable[[Sequence[str]], list[str]],
        sources: Sources,
        access: Access,
    ) -> Iterator[Mapping[str, int]]:
        found = chain.from_iterable(selection.search(sources, access))
        ids = [each.record.id for each in islice(found, self.first)]
        if ids:
            save_trial(sources, access, selection, ids, self.token)
            replayed = replay(ids)
            forget_letters(sources, ids)
            yield _counts("replayed", ids, replayed)

    def outcome(self, counts: Mapping[str, int]) -> str:
        replayed = counts.get("replayed", 0)
        if counts.get(_REPEATED):
            return "This trial was started by the same form before, and is not started again."
        if self.first:
            return f"{_letters(replayed)} {'is' if replayed == 1 else 'are'} tried. This page shows how they end."
        return f"{_letters(replayed)} {'is' if replayed == 1 else 'are'} ready again.{_gone(counts)}"

    def undo(self) -> None:
        """A replayed letter may have run."""
        return


class DeleteLetters(Struct, frozen=True, kw_only=True):
    """Delete dead letters for good: those with these ids, or with `all` those of a filter and a group."""

    action: ClassVar[str] = "dead.delete"
    ids: tuple[str, ...] = ()
    filter: str = ""
    group: str = ""
    all: bool = False
    before: int = 0

    def target(self) -> str:
        return _target(self.selection())

    def selection(self) -> LetterSelection:
        return _selection(self.ids, self.all, self.filter, self.group, self.before)

    def check(self, sources: Sources, access: Access) -> None:
        check_selection(self.selection(), sources)

    def preview(self, sources: Sources, access: Access) -> Preview:
        total, notes = _counted(self.selection(), sources, access)
        return Preview(
            question=f"Delete {_letters(total)} for good?",
            verb=f"Delete {total}",
            effects=(Effect("are deleted, with payload and errors", "dead", total),),
            notes=notes,
            total=total,
            is_final=True,
            counted_at=sources.now,
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield from _changed(self.selection(), sources.app.dead_letters().discard, "deleted", sources, access)
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        deleted = counts.get("deleted", 0)
        return f"{_letters(deleted)} {'was' if deleted == 1 else 'were'} deleted.{_gone(counts)}"

    def undo(self) -> None:
        """A deleted letter is gone."""
        return


class ExportedLetters(Struct, frozen=True, kw_only=True):
    """The dead letters of a download: those with these ids, or with `all` those of a filter and a group."""

    ids: tuple[str, ...] = ()
    filter: str = ""
    group: str = ""
    all: bool = False

    def selection(self) -> LetterSelection:
        return _selection(self.ids, self.all, self.filter, self.group)


def export_letters(
    sources: Sources, access: Access, wanted: ExportedLetters, why: str | None = None, *, origin: str = "web"
) -> Iterator[bytes]:
    """Lines of JSON, one for each letter, with payload and errors, secrets masked; read while the caller iterates.

    Raises AccessDenied or ActionRefused before the first line. The audit log gets a record at the start, which is
    completed at the end.
    """
    access.check_action("dead.export")
    selection = wanted.selection()
    check_selection(selection, sources)
    return _lines(sources, access, selection, why, origin)


def _selection(ids: tuple[str, ...], all: bool, filter: str, group: str, before: int = 0) -> LetterSelection:
    """Chosen letters, or all that match; the two do not mix, since a page sends its filter with chosen ids too."""
    if all:
        return LetterSelection(filter=filter, group=group, before=before)
    return LetterSelection(ids=ids, is_by_id=True)


def _lines(
    sources: Sources, access: Access, selection: LetterSelection, why: str | None, origin: str
) -> Iterator[bytes]:
    trail, counts, state = AuditTrail(sources.app), Counter[str](), "stopped"
    record = trail.begin(access.user, "dead.export", _target(selection), why, origin)
    try:
        for found in selection.search(sources, access):
            for each in found:
                counts["exported"] += 1
                yield _line(sources, access, each)
        state = "done"
    finally:  # also if the browser stops the download
        trail.end(record, state, counts)


def _line(sources: Sources, access: Access, found: FoundLetter) -> bytes:
    info = sources.app.jobs.info(found.record)
    shown = info if access.redact is None else access.redact(info)
    masked = sources.redactor.mask(shown.as_dict())
    return escape_controls(msgspec.json.encode(masked).decode()).encode() + b"\n"


def _changed(
    selection: LetterSelection,
    change: Callable[[Sequence[str]], list[str]],
    word: str,
    sources: Sources,
    access: Access,
) -> Iterator[Mapping[str, int]]:
    """Change the selected letters in steps of 500; yields how many were changed, and how many were gone by then."""
    for found in selection.search(sources, access):
        ids = [each.record.id for each in found]
        changed = change(ids)
        forget_letters(sources, ids)
        yield _counts(word, ids, changed)


def _counts(word: str, ids: Sequence[str], changed: Sequence[str]) -> dict[str, int]:
    gone = len(ids) - len(changed)
    return {word: len(changed), **({"gone": gone} if gone else {})}


def _counted(selection: LetterSelection, sources: Sources, access: Access) -> tuple[int, tuple[str, ...]]:
    """How many letters are selected, among those that all viewers share, and what the user must know about it."""
    if selection.is_by_id:
        found = {each.record.id for page in selection.search(sources, access) for each in page}
        missing = len(set(selection.ids) - found)
        return len(found), (f"{missing} of the chosen are no dead letters any more.",) if missing else ()
    snapshot: LetterSnapshot = shared_letters(sources)
    letters: list[Letter] = selection.among(snapshot, sources, access)
    if not snapshot.is_cut:
        return len(letters), ()
    read = f"{len(snapshot.letters):,} {'newest' if snapshot.has_newest else 'oldest'}"
    return len(letters), (f"Only the {read} letters were counted: others that match are changed too.",)


def _target(selection: LetterSelection) -> str:
    if selection.is_by_id:
        named = ", ".join(selection.ids[:_NAMED_IDS])
        more = len(selection.ids) - _NAMED_IDS
        return f"{named} and {more} more" if more > 0 else named
    parts = [selection.filter, f"group={selection.group}" if selection.group else ""]
    return "&".join(filter(None, parts)) or "all dead letters"


def _letters(count: int) -> str:
    return f"{count:,} letter{'' if count == 1 else 's'}"


def _gone(counts: Mapping[str, int]) -> str:
    gone = counts.get("gone", 0)
    return f" {gone:,} {'was' if gone == 1 else 'were'} no dead letters any more." if gone else ""
