"""What a backend is: eight verbs on batches, and small separate protocols for what only some callers need.

A backend moves opaque bytes and grants leases; it never signs, decides, counts or logs outcomes.
Every settle and renewal checks the owner and the fence of the lease, and names the leases that were lost.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from tenure.definition.failure import Failure
from tenure.definition.progress import Progress
from tenure.errors import Cancelled
from tenure.events import Run
from tenure.guards.store import Change
from tenure.metrics.tally import Tally
from tenure.wire.signing import Ring

Terminal = Literal["done", "cancelled", "expired"]
Charge = Literal["attempt", "crash", "suspect"]
Fate = Literal["cancelled", "asked", "too_late", "unknown"]
Turn = Literal["rescheduled", "running", "too_late", "unknown"]
STATES = ("ready", "delayed", "parked", "leased", "done", "dead", "cancelled", "expired")
HEAD = 64  # bytes: where a message names its key
ON_REQUEST = Cancelled.reason  # the reason kept with a job that somebody cancelled


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """A sealed job on its way into a queue; `due` is UTC microseconds (0: at once), `delay` is seconds from now.

    While a job that was put with the same `unique` waits or runs, a message is not stored.
    The id of one that `is_new` was made for it just now: no job can have it, so nobody needs to look.
    """

    id: str
    queue: str
    body: bytes
    handler: str
    name: str | None = None
    priority: int = 5
    delay: float = 0.0
    due: int = 0
    unique: str | None = None
    is_new: bool = False


class Lease(Struct, frozen=True, kw_only=True, gc=False):
    """The right to run one message until a time; `token` is the backend's own handle.

    `attempts` and `crashes` are what was counted before this lease; `due` is when the message could first start.
    A `suspect` came back from a worker that vanished: if this lease expires too, that is a crash.
    """

    id: str
    queue: str
    body: bytes
    owner: str
    fence: int
    attempts: int
    crashes: int
    suspect: bool
    priority: int
    due: int
    token: Any


class Ack(Struct, frozen=True, kw_only=True):
    """The job is over; what is kept is a history row without the body.

    `run` is what its last attempt took, if it ran.
    `follow` are messages that whoever settles has put before: backends need not look at them.
    `change`, here and below, is applied in the same step where the backend is a Store, if the lease is still held.
    """

    lease: Lease
    state: Terminal = "done"
    seconds: float = 0.0
    output: str | None = None
    reason: str | None = None
    follow: tuple[Message, ...] = ()
    change: Change | None = None
    run: Run | None = None


class Nack(Struct, frozen=True, kw_only=True):
    """The job goes back to its place after `delay` seconds; `charge` says what is counted, if anything.

    A charge of `suspect` counts nothing yet: the job is leased alone next, and if that lease expires, it crashed.
    """

    lease: Lease
    delay: float = 0.0
    charge: Charge | None = None
    failure: Failure | None = None
    reason: str | None = None
    change: Change | None = None
    run: Run | None = None


class Abandon(Struct, frozen=True, kw_only=True):
    """The job goes to the dead letters, with its bytes and the reason."""

    lease: Lease
    reason: str
    charge: Charge | None = None
    failure: Failure | None = None
    follow: tuple[Message, ...] = ()
    change: Change | None = None
    run: Run | None = None


class Park(Struct, frozen=True, kw_only=True):
    """The job waits in its place, at no cost, until the guard `key` changes or its time to try again has come.

    `change` is what whoever settles has applied before: backends need not look at it.
    """

    lease: Lease
    key: str
    reason: str
    change: Change | None = None


Verdict = Ack | Nack | Abandon | Park


class Reaped(Struct, frozen=True):
    """A lease that expired; `crashed` when its job was a suspect already, and so was charged."""

    id: str
    queue: str
    crashed: bool


class Backend(Protocol):
    """Where messages wait; see the conformance suite for what each verb promises."""

    def put(self, messages: Sequence[Message]) -> list[str]:
        """Store messages; returns the ids that are new: one that is known, even of an ended job, is stored once."""
        ...

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """Grant up to `limit` leases, from the first queue that has any on; a suspect is granted alone."""
        ...

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        """End jobs; returns the leases that were lost."""
        ...

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        """Return jobs to their place; returns the leases that were lost."""
        ...

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        """Move jobs to the dead letters, atomically; returns the leases that were lost."""
        ...

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """Push the expiry of leases; returns the leases that were lost."""
        ...

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        """Return what expired to its place."""
        ...

    def close(self) -> None: ...


class JobRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a backend knows about one job; times are UTC microseconds.

    `run` is what the last attempt of an ended job took; those that failed are in `failures`.
    """

    id: str
    queue: str
    handler: str
    name: str | None
    state: str
    priority: int
    attempts: int
    crashes: int
    fence: int
    enqueued_at: int
    due_at: int
    finished_at: int | None = None
    owner: str | None = None
    lease_until: int | None = None
    seconds: float | None = None
    reason: str | None = None
    output: str | None = None
    failures: tuple[Failure, ...] = ()
    body: bytes | None = None
    progress: Progress | None = None
    cancel_asked: bool = False
    waits_for: str | None = None
    run: Run | None = None


@runtime_checkable
class Transactional(Protocol):
    """Backends that can store messages inside a transaction of the caller's."""

    def put_in(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        """As put, on the caller's connection: messages exist when it commits, and never did when it rolls back.

        Workers find them when they next look; with `wake` they are told at the commit, where that can be done.
        """
        ...


@runtime_checkable
class Counted(Protocol):
    """How many jobs are where; a backend that forgets what has ended counts none of it."""

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        """Queue → state → how many; every state is named.

        Jobs that ended well may be so many that counting them takes long: without `ended` they count as none.
        """
        ...


@runtime_checkable
class Aged(Protocol):
    """Backends that know for how long jobs have waited."""

    def oldest(self, queues: Sequence[str]) -> dict[str, float]:
        """For how many seconds the job of each queue that has waited longest could have started; at the same cost
        however many wait. What came back is left out while there is something else; queues without any are missing."""
        ...


@runtime_checkable
class Inspectable(Counted, Protocol):
    """Counts and single jobs, for people and tests."""

    def find(self, id: str) -> JobRecord | None: ...


@runtime_checkable
class Listable(Protocol):
    """Backends that show their jobs a page at a time, at the cost of what is shown."""

    def queues_with(self, state: str) -> list[str]:
        """The queues that have, or may have, jobs in this state."""
        ...

    def page(
        self, state: str, queue: str, *, limit: int, cursor: str | None = None
    ) -> tuple[list[JobRecord], str | None]:
        """Jobs of one state and queue, without bodies, and the cursor of the next page, None after the last.

        What is ready is shown in the order it runs, what is delayed or leased by when that ends, what has ended
        or died the newest first.
        """
        ...


@runtime_checkable
class DeadLetters(Protocol):
    """The jobs that will not run again unless somebody says so."""

    def dead(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        """The oldest first; `after` is (finished_at, id) of the last one of the page before."""
        ...

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Make dead letters ready again with fresh counters and a growing fence; returns the ids that were dead."""
        ...

    def discard(self, ids: Sequence[str]) -> list[str]:
        """Delete dead letters for good; returns the ids that were dead."""
        ...


class Burial(Struct, frozen=True, kw_only=True):
    """A message that goes straight to the dead letters, and what is to be kept with it."""

    message: Message
    reason: str
    attempts: int = 0
    failure: Failure | None = None


@runtime_checkable
class Burying(Protocol):
    """Backends that take dead letters from whoever has one, not only from those who hold a lease."""

    def bury(self, burials: Sequence[Burial]) -> list[str]:
        """Store messages as dead letters, as if they had just died; returns the ids that are new."""
        ...


@runtime_checkable
class Steerable(Protocol):
    """Backends whose jobs can be cancelled from outside, and tell how far they are.

    A request to cancel a leased job is kept with its lease: an ack or an abandon ends the job as it says,
    and when the job would wait again instead, after a nack or a reap, it ends `cancelled` in that same step.
    Charges and failures are kept as ever. Progress is of the lease, and goes with it.
    """

    def cancel(self, ids: Sequence[str]) -> dict[str, Fate]:
        """What becomes of each: a waiting job has ended, `cancelled` for the reason ON_REQUEST, and is never leased;
        a leased one is `asked`; one that has ended is `too_late`, whatever its end."""
        ...

    def asked_to_stop(self, leases: Sequence[Lease]) -> list[Lease]:
        """Those of these leases, if still held, whose job was asked; looked at every second, so next to free."""
        ...

    def note_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        """Keep how far these are; what is not held any more is left alone."""
        ...


@runtime_checkable
class Reschedulable(Protocol):
    """Backends whose waiting jobs can be put off, and brought forward."""

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, Turn]:
        """What becomes of each: a waiting job, a parked one too, may start at `due`, or else `delay` seconds from now,
        and no sooner; its place, counts and failures stay. One that is leased is `running`, and goes on."""
        ...


@runtime_checkable
class Parking(Protocol):
    """Backends that are a Store too, and where jobs wait for its keys without being looked at."""

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        """Let jobs wait for their keys; one whose key is free by now is ready again. Returns the lost leases."""
        ...

    def rouse(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        """Wake the heads of these keys, or of up to `limit` of all, whose time to try again has come.

        Returns the keys that may still have waiters, and in how many seconds to ask again.
        """
        ...


@runtime_checkable
class Exclusive(Protocol):
    """Backends that keep jobs with the same `unique` apart."""

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        """The ids of the jobs that wait or run with these."""
        ...


@runtime_checkable
class Scannable(Protocol):
    """Backends that show the beginnings of all messages that have not ended, a page at a time."""

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """The first HEAD bytes of each body, and the cursor of the next page, None after the last;
        what is put or ends meanwhile may be missed."""
        ...


@runtime_checkable
class Maintained(Protocol):
    """Backends that keep history and need it trimmed."""

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        """Delete up to `limit` ended jobs of this state, and queue, that finished before this time; how many."""
        ...


@runtime_checkable
class Statistical(Protocol):
    """Backends that keep what workers count, so that statistics cost the same however long the history is."""

    def note_tallies(self, tallies: Sequence[Tally]) -> None:
        """Keep these, in the place of what the same worker noted of the same slot, queue and handler."""
        ...

    def tallies(self, since: int, until: int) -> list[Tally]:
        """Those whose slot began at or after `since` and before `until`, the oldest first."""
        ...

    def fold_tallies(self, before: int, limit: int) -> int:
        """Add up what up to `limit` workers' tallies say of slots before this time; returns how many there were."""
        ...

    def drop_tallies(self, before: int, limit: int) -> int:
        """Delete up to `limit` tallies of slots before this time; returns how many."""
        ...


class LaneRecord(Struct, frozen=True, kw_only=True):
    """A lane of a worker as others see it; one that was made for a single command has no name."""

    name: str
    queues: tuple[str, ...]
    runner: str
    concurrency: int


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker as others see it; `id` is new at every start, times are UTC microseconds, `jobs` are ids it holds.

    `runner` and `concurrency` sum up its lanes; `rates` are jobs that it ended a second, by queue, over about a minute.
    `live` is how many jobs of each queue had not ended, whoever holds them, at `live_at`, if this worker counted them.
    `handlers` and `kids` are the handlers and keys that it has, by name; workers of older releases do not tell.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    runner: str
    concurrency: int
    started_at: int
    seen_at: int
    jobs: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    lanes: tuple[LaneRecord, ...] = ()
    rates: dict[str, float] = {}
    live: dict[str, int] = {}
    live_at: int = 0
    handlers: tuple[str, ...] = ()
    kids: tuple[str, ...] = ()


@runtime_checkable
class Roster(Protocol):
    """Backends that know which workers are alive."""

    def greet(self, worker: WorkerRecord, seconds: float) -> None:
        """This worker is alive; it is forgotten unless it says so again within this time."""
        ...

    def part(self, id: str) -> None:
        """This worker has stopped."""
        ...

    def workers(self) -> list[WorkerRecord]:
        """Those that are alive, the longest running first."""
        ...


class Fact(Struct, frozen=True):
    """Something to know about a backend as it is set up now; a `warning` is one that somebody should act on."""

    about: str
    text: str
    warning: bool = False


@runtime_checkable
class Candid(Protocol):
    """Backends whose server decides how much is promised, and that ask it."""

    def facts(self) -> list[Fact]:
        """What `tenure health` tells: how durable a put is, how workers are woken."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """Backends that keep our facts beside messages where others could write them, and so mark them."""

    def mark_with(self, ring: Ring) -> None:
        """Mark, and check marks, with the app's keys."""
        ...


@runtime_checkable
class Migratable(Protocol):
    """Backends with a schema of their own; `steps_taken` names the steps since it was opened, opening included."""

    steps_taken: list[str]

    def schema_version(self) -> tuple[int, int]:
        """The version that is stored and the one this release needs."""
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to date; returns the names of the steps taken."""
        ...


@runtime_checkable
class Indexed(Protocol):
    """Backends that are only quick while their indexes are there."""

    def missing_indexes(self) -> list[str]:
        """The names of those that are not, or that are not valid."""
        ...


@runtime_checkable
class Embedded(Protocol):
    """Backends that live in a file of ours, with room for a key beside it."""

    key_path: Path


@runtime_checkable
class OnSqlite(Protocol):
    """Backends in a file of SQLite, and the version of that library."""

    sqlite: tuple[int, ...]


@runtime_checkable
class InProcess(Protocol):
    """Backends whose messages never leave this process."""

    in_process: Literal[True]
