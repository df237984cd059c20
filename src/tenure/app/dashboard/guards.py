"""The guards page: locks, slots, rates, breakers, idempotency keys and pauses, with what waits for them; reset one."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Literal, get_args

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Effect, Preview, Sources
from tenure.app.guards import GuardRecord
from tenure.clock import to_datetime
from tenure.errors import ActionRefused, SettingsError
from tenure.guards.states import Bucket, Circuit, Claimed, Done, Paused, Slots, holds_of

Kind = Literal["lock", "most", "rate", "breaker", "once", "pause", "drain", "backend"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_NAMES: dict[str, str] = {
    "lock": "lock",
    "most": "slots",
    "rate": "rate",
    "breaker": "breaker",
    "once": "idempotency key",
    "pause": "pause of a queue",
    "drain": "drain of a worker",
    "backend": "breaker around a backend",
}
PAGE_SIZE = 100
_SHARED_SECONDS = 2.0
_COUNTED_JOBS = 10_000  # that wait, on one page
_MAX_HOLDERS = 5
_LEAST_COUNTED = 100


class HolderCard(Struct, frozen=True, kw_only=True):
    """A job that holds a guard; `until` is when its hold ends unless it is renewed."""

    id: str
    since: datetime | None = None
    until: datetime | None = None


class GuardRow(Struct, frozen=True, kw_only=True):
    """A guard: what it is, its state in words, who holds it, since when and until when, and how many jobs wait for it.

    `parked` is None if it is not known; with `or_more`, counting stopped there. A `signal` asks for something.
    """

    key: str
    kind: str
    name: str
    state: str
    holders: tuple[HolderCard, ...] = ()
    more_holders: int = 0
    since: datetime | None = None
    until: datetime | None = None
    parked: int | None = 0
    or_more: bool = False
    signal: Literal["problem", "warning"] | None = None

    @property
    def kind_name(self) -> str:
        return KIND_NAMES.get(self.kind, self.kind)


class GuardsPage(Struct, frozen=True, kw_only=True):
    """One page of guards by key; None if no store keeps guards. `next` is the key after which the next page begins."""

    at: datetime
    guards: tuple[GuardRow, ...] | None
    kind: Kind | None = None
    key: str = ""
    after: str = ""
    next: str | None = None
    may_reset: bool = False


class GuardsQuery(Struct, frozen=True, kw_only=True):
    """`key` is the beginning of the key, without its kind if a kind is given."""

    page: ClassVar[str] = "guards"
    kind: Kind | None = None
    key: str = ""
    after: str = ""

    def read(self, sources: Sources, access: Access) -> GuardsPage:
        try:
            found = sources.shared(f"guards {self!r}", _SHARED_SECONDS, lambda: self._read(sources))
        except SettingsError:  # a broker without a store
            return GuardsPage(at=sources.now, guards=None)
        shown = found[:PAGE_SIZE]
        return GuardsPage(
            at=sources.now,
            guards=guard_rows(sources, shown),
            kind=self.kind,
            key=self.key,
            after=self.after,
            next=shown[-1].key if len(found) > PAGE_SIZE else None,
            may_reset=access.may("guard.reset"),
        )

    def _read(self, sources: Sources) -> list[GuardRecord]:
        prefix = f"{self.kind}:{self.key}" if self.kind else self.key
        found = sources.app.guards.search(prefix, PAGE_SIZE + 1, self.after)
        if found or self.kind not in ("rate", "most") or not self.key:
            return found
        # The keys of rates and slots name what they limit too: `rate:queue:emails` is found by `emails`.
        return [
            each
            for part in ("handler", "key", "queue")
            for each in sources.app.guards.search(f"{self.kind}:{part}:{self.key}", PAGE_SIZE + 1, self.after)
        ][: PAGE_SIZE + 1]


def guard_rows(sources: Sources, guards: Sequence[GuardRecord]) -> tuple[GuardRow, ...]:
    """The rows of these guards, with bounded counts of the jobs that wait for them."""
    waited_for = [each.key for each in guards if each.waiting]
    limit = max(_LEAST_COUNTED, _COUNTED_JOBS // max(1, len(waited_for)))
    parking = sources.app.backend.parking
    counts = None if parking is None else parking.waiters(waited_for, limit)
    return tuple(_row(each, None if counts is None else counts.get(each.key, {}), limit) for each in guards)


def _row(guard: GuardRecord, waiting: Mapping[str, int] | None, limit: int) -> GuardRow:
    holds = [hold for hold in holds_of(guard.state) if hold.until > guard.now]
    holders = [
        HolderCard(id=hold.id, since=_time(hold.since), until=_time(hold.until))
        for hold in sorted(holds, key=lambda hold: hold.since)
    ]
    if isinstance(guard.state, Done):
        holders = [HolderCard(id=guard.state.id)]
    since, until = _times(guard)
    parked = None if waiting is None else sum(waiting.values())
    return GuardRow(
        key=guard.key,
        kind=guard.kind,
        name=guard.key.partition(":")[2],
        state=guard.text(),
        holders=tuple(holders[:_MAX_HOLDERS]),
        more_holders=max(0, len(holders) - _MAX_HOLDERS),
        since=since,
        until=until,
        parked=parked,
        or_more=parked is not None and parked >= limit,
        signal=_signal(guard),
    )


def _times(guard: GuardRecord) -> tuple[datetime | None, datetime | None]:
    """Since when, and until when, as far as the state says it."""
    holds = [hold for hold in holds_of(guard.state) if hold.until > guard.now]
    match guard.state:
        case Paused(since, _):
            return _time(since), None
        case Circuit(_, until, _) if until:
            return None, _time(until)
        case Bucket() as bucket:
            return None, _time(bucket.next_at()) if bucket.next_at() > guard.now else None
    if holds:
        return _time(min(hold.since for hold in holds)), _time(max(hold.until for hold in holds))
    return None, None


def _time(moment: int) -> datetime | None:
    return to_datetime(moment) if moment else None


def _signal(guard: GuardRecord) -> Literal["problem", "warning"] | None:
    if isinstance(guard.state, Circuit) and guard.state.until:
        return "problem" if guard.state.until > guard.now else "warning"
    return "warning" if isinstance(guard.state, Paused) else None


class ResetGuard(Struct, frozen=True, kw_only=True):
    """Forget the state of a guard, and wake the jobs that can start then."""

    action: ClassVar[str] = "guard.reset"
    key: str

    def target(self) -> str:
        return self.key

    def check(self, sources: Sources, access: Access) -> None:
        access.check_all_queues(self.action)
        self._find(sources)

    def preview(self, sources: Sources, access: Access) -> Preview:
        guard = self._find(sources)
        (row,) = guard_rows(sources, [guard])
        wait = Effect("may start, as far as the guard then lets them", "parked", row.parked)
        return Preview(
            question=f"Reset the {row.kind_name} {row.name}?",
            verb="Reset",
            effects=(Effect(_effect(guard)), *((wait,) if row.parked else ())),
            notes=(f"It is now: {row.state}.",),
            is_final=True,
        )

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        yield {"reset": int(sources.app.guards.reset(self.key))}
        sources.recorder.read_now()

    def outcome(self, counts: Mapping[str, int]) -> str:
        return f"{self.key} is reset." if counts.get("reset") else f"{self.key} had no state any more."

    def undo(self) -> None:
        return None

    def _find(self, sources: Sources) -> GuardRecord:
        found = [guard for guard in sources.app.guards.search(self.key, 1) if guard.key == self.key]
        if not found:
            raise ActionRefused(f"no guard {self.key!r} has a state or waiting jobs: it may be free by now")
        return found[0]


def _effect(guard: GuardRecord) -> str:
    """What a reset does to this guard."""
    match guard.state:
        case Slots(1, _):
            return "the lock becomes free, also while a job holds it: another job may then run beside it"
        case Slots():
            return "all slots become free, also while jobs hold them: more jobs than allowed may then run at once"
        case Claimed() | Done():
            return "the idempotency key is forgotten: a job with this key runs again"
        case Bucket():
            return "the rate is full again: as many jobs as its burst may start at once"
        case Circuit():
            return "the breaker closes and forgets its failures: calls go to the service again"
        case Paused() if guard.kind == "drain":
            return "the worker leases jobs again"
        case Paused():
            return "the queue is resumed"
    return "the jobs that wait for it may try again"
