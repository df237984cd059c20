"""What people and tests ask of a backend: counts, jobs, dead letters, and what may be done with them.

Each protocol is for the backends that can; the conformance suite says what they promise.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from tenure.backends.contract import Lease, Message
from tenure.definition.failure import Failure
from tenure.definition.progress import Progress
from tenure.events import Run

Fate = Literal["cancelled", "asked", "too_late", "unknown"]
Turn = Literal["rescheduled", "running", "too_late", "unknown"]
ENDED = ("done", "dead", "cancelled", "expired")
STATES = ("ready", "delayed", "parked", "leased", *ENDED)
HEAD = 64  # bytes: where a message names its key


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
        self, state: str, queue: str, *, limit: int, cursor: str | None = None, before: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        """Jobs of one state and queue, without bodies, and the cursor of the next page, None after the last.

        What is ready is shown in the order it runs, what is delayed or leased by when that ends, what has ended
        or died the newest first: with `before`, given for each page, from what did so before this time.
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
class Scannable(Protocol):
    """Backends that show the beginnings of all messages that have not ended, a page at a time."""

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """The first HEAD bytes of each body, and the cursor of the next page, None after the last;
        what is put or ends meanwhile may be missed."""
        ...
