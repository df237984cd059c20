"""The dry run of a replay: what workers would do with the first letters of a selection; nothing is changed."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.letter_index import shared_letters
from tenure.app.dashboard.letter_selection import LetterSelection
from tenure.app.explain.decide import text_of
from tenure.backends.records import JobRecord
from tenure.clock import to_datetime
from tenure.definition.handler import Handler
from tenure.errors import BackendError, MessageRejected, SettingsError, TenureError
from tenure.execution.attempt import check_version
from tenure.guards.guard import Guard, Refusal
from tenure.guards.states import Holder, State, unpack
from tenure.wire.envelope import Envelope

MAX_CHECKED = 500  # letters: reading and opening them takes SQLite about 50 ms
KEPT_SECONDS = 10.0
_FEW = 50
_MAX_PAGES = 2  # of 500 letters, in which the letters of a group may be few
_KEPT_RUNS = 20
_MAX_HINDRANCES = 5
_KEYS_AT_ONCE = 500


class Hindrance(Struct, frozen=True, kw_only=True):
    """What would hold replayed letters back; `until` is when it ends, if that is known."""

    what: str
    text: str
    count: int
    until: datetime | None = None


class DryRun(Struct, frozen=True, kw_only=True):
    """Of `checked` letters: how many open with a key of this dashboard, have a deployed handler, and fit it.

    `deployed` and `fit` are None where the dashboard does not know the handlers. `is_cut`: there are more letters.
    """

    checked: int
    is_cut: bool
    opened: int
    deployed: int | None
    fit: int | None
    done_before: int
    hindrances: tuple[Hindrance, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether all letters could run, and would not be skipped."""
        known = [self.opened, *(count for count in (self.deployed, self.fit) if count is not None)]
        return min(known) == self.checked and not self.done_before


class _Opened(NamedTuple):
    record: JobRecord
    envelope: Envelope
    guards: tuple[Guard, ...]


def shared_dry_run(sources: Sources, access: Access, selection: LetterSelection) -> DryRun:
    """The dry run that viewers with the same queues share for some seconds."""
    runs: OrderedDict[str, DryRun] = sources.shared("dry runs", KEPT_SECONDS, OrderedDict)
    key = repr((selection.filter, selection.group, access.queues, access.redact is None))
    if key not in runs:
        runs[key] = dry_run(sources, access, selection)
        while len(runs) > _KEPT_RUNS:
            runs.popitem(last=False)
    return runs[key]


def dry_run(sources: Sources, access: Access, selection: LetterSelection) -> DryRun:
    """Check the first letters of a selection, the oldest first, as a worker would."""
    checked, is_cut = _first_letters(sources, access, selection)
    opened = list(_open(sources, checked))
    refusals = list(_refusals(sources, opened))
    held = [(record, refusal) for record, refusal in refusals if refusal.reason != "done"]
    return DryRun(
        checked=len(checked),
        is_cut=is_cut,
        opened=len(opened),
        deployed=_deployed(sources, checked),
        fit=_fitting(sources, opened) if sources.has_handlers else None,
        done_before=sum(refusal.reason == "done" for _, refusal in refusals),
        hindrances=tuple(chain(_of_queues(sources, checked), _of_guards(held)))[:_MAX_HINDRANCES],
    )


def _first_letters(sources: Sources, access: Access, selection: LetterSelection) -> tuple[list[JobRecord], bool]:
    """The oldest of the selected letters, with their messages, and whether there are more.

    Few are found one by one; of many, those among the first thousand since the oldest.
    """
    snapshot = shared_letters(sources)
    chosen = selection.among(snapshot, sources, access)
    if len(chosen) <= _FEW and not snapshot.is_cut and sources.app.backend.jobs is not None:
        return list(sources.app.dead_letters().get(letter.record.id for letter in reversed(chosen))), False
    since = chosen[-1].died if chosen and not snapshot.is_cut else None
    letters = chain.from_iterable(selection.search(sources, access, since=since, max_pages=_MAX_PAGES))
    found = [each.record for each in islice(letters, MAX_CHECKED)]
    return found, len(found) < len(chosen) or snapshot.is_cut


def _open(sources: Sources, records: Iterable[JobRecord]) -> Iterator[_Opened]:
    """The letters whose messages this dashboard can open."""
    wire, rules = sources.app.open_backend().wire, sources.app.guards.rules
    for record in records:
        try:
            envelope = wire.open(record.body or b"", record.queue, record.id)
        except MessageRejected:
            continue
        yield _Opened(record, envelope, rules.guards_of(envelope))


def _deployed(sources: Sources, records: Sequence[JobRecord]) -> int | None:
    """How many have a handler in this app, or in a live worker of their queue; None if neither tells."""
    workers = [each for each in sources.figures.workers or () if each.handlers]
    if not workers and not sources.has_handlers:
        return None
    served = {(queue, handler) for worker in workers for queue in worker.queues for handler in worker.handlers}

    def is_deployed(record: JobRecord) -> bool:
        if any(record.queue in worker.queues for worker in workers) or not sources.has_handlers:
            return (record.queue, record.handler) in served
        return _handler(sources, record) is not None

    return sum(map(is_deployed, records))


def _fitting(sources: Sources, opened: Iterable[_Opened]) -> int:
    count = 0
    for record, envelope, _ in opened:
        handler = _handler(sources, record)
        count += handler is not None and _fits(handler, envelope)
    return count


def _fits(handler: Handler, envelope: Envelope) -> bool:
    try:
        check_version(handler, envelope)
        handler.unpack(bytes(envelope.payload), envelope.payload_version)
    except Exception:  # declared types may run code of their own when they are built
        return False
    return True


def _handler(sources: Sources, record: JobRecord) -> Handler | None:
    try:
        return sources.app.registry.resolve(record.handler, record.queue)
    except TenureError:
        return None


def _refusals(sources: Sources, opened: Sequence[_Opened]) -> Iterator[tuple[JobRecord, Refusal]]:
    """The first guard of each letter that would not let it start now."""
    keys = list(dict.fromkeys(guard.key for each in opened for guard in each.guards))
    if not keys:
        return
    try:
        now, states = _states(sources, keys)
    except (SettingsError, BackendError):
        return  # no store is set, or it does not answer: the guards are not known
    for record, _, guards in opened:
        holder = Holder(record.id, record.fence + 1, sources.app.settings.lease)
        taken = (guard.take(states.get(guard.key), holder, now) for guard in guards)
        refusal = next((each for each in taken if isinstance(each, Refusal)), None)
        if refusal is not None:
            yield record, refusal


def _states(sources: Sources, keys: Sequence[str]) -> tuple[int, dict[str, State | None]]:
    store, now = sources.app.guards.store(), 0
    states: dict[str, State | None] = {}
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        now, found = store.read(keys[first : first + _KEYS_AT_ONCE])
        states |= {key: unpack(value) for key, value in found.items()}
    return now, states


def _of_queues(sources: Sources, records: Iterable[JobRecord]) -> Iterator[Hindrance]:
    """Queues that are paused, or that no worker serves."""
    figures = sources.figures
    for queue, count in Counter(record.queue for record in records).most_common():
        found = figures.queue(queue)
        if found is not None and found.paused_since is not None:
            why = f" ({found.pause_reason})" if found.pause_reason else ""
            yield Hindrance(what=f"queue {queue}", text=f"is paused{why}: they would wait in it", count=count)
        elif figures.workers is not None and not any(queue in worker.queues for worker in figures.workers):
            yield Hindrance(what=f"queue {queue}", text="has no live worker: they would wait in it", count=count)


def _of_guards(held: Iterable[tuple[JobRecord, Refusal]]) -> Iterator[Hindrance]:
    counts, refusals = Counter[str](), {}
    for _, refusal in held:
        counts[refusal.key] += 1
        refusals[refusal.key] = refusal
    for key, count in counts.most_common():
        refusal = refusals[key]
        text = {
            "circuit_open": "is open: they would be parked until a probe succeeds",
            "rate_limited": "is used up: they would start one after the other",
        }.get(refusal.reason, "is held by another job: they would wait for it")
        until = to_datetime(refusal.until) if refusal.until else None
        yield Hindrance(what=text_of(key).what, text=text, count=count, until=until)
