"""The optional parts of a backend: each is an object with one job, or None where the backend cannot do it.

A backend sets them as attributes (see `contract.Backend`); the conformance suite says what each method promises.
`parts_for` combines the parts of a broker with those of the store beside it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from tenure.backends.ends import EndWait, Wakeup
from tenure.backends.messages import Lease, Message, Park
from tenure.backends.records import (
    AuditRecord,
    CancelResult,
    Fact,
    JobRecord,
    NewDeadLetter,
    PayloadSize,
    RescheduleResult,
    WorkerRecord,
)
from tenure.definition.context import Progress
from tenure.events import ENDED_WELL
from tenure.metrics.statistics import Tally

HEAD_BYTES = 64  # a message names its signing key within its first bytes


class Jobs(Protocol):
    """Shows single jobs and lists of jobs; a page costs what it shows."""

    def find(self, id: str) -> JobRecord | None: ...

    def queues_with(self, state: str) -> list[str]:
        """The queues that have, or may have, jobs in this state."""
        ...

    def page(
        self,
        state: str,
        queue: str,
        *,
        limit: int,
        cursor: str | None = None,
        before: int | None = None,
        bodies: bool = False,
    ) -> tuple[list[JobRecord], str | None]:
        """Jobs of one state and queue, and the cursor of the next page, None after the last.

        Ready jobs come in the order they run, delayed and leased ones by the time their state ends, ended ones with
        the newest first. `before`, given for each page, starts with the jobs that ended before this time.
        With `bodies` the records have their `body`, where the backend keeps it, and `is_erased`.
        """
        ...

    def tagged(self, tag: str, *, limit: int, cursor: str | None = None) -> tuple[list[JobRecord], str | None]:
        """Jobs of any state with this tag, without bodies, and the cursor of the next page, None after the last.

        The newest enqueue comes first; a replay does not change it. A page costs what it shows, however many jobs
        have other tags or none.
        """
        ...

    def with_prefix(self, prefix: str, limit: int = 10) -> list[JobRecord]:
        """Up to `limit` jobs of any state whose id starts with this text, without bodies, ordered by id.

        A job with exactly this id comes alone. A backend without an index of ids reads all of them.
        """
        ...

    def trim(self, state: str, before: int, limit: int, queue: str | None = None) -> int:
        """Delete up to `limit` jobs that ended in this state before this time; return how many.

        Dead letters are not deleted here: see `DeadLetters.trim`.
        """
        ...

    def forget(self, ids: Sequence[str]) -> list[str]:
        """Erase the payloads and results of those of these jobs that have ended; return their ids.

        Their other records stay. A dead letter is not changed.
        """
        ...

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete those of these jobs that have ended, with all that is recorded about them; return their ids.

        A backend leaves dead letters alone: see `DeadLetters.discard`. An archive deletes its records of them.
        """
        ...


class RecentJobs(Protocol):
    """Lists jobs of any state by their order of enqueue; a backend without an index of this order has no such part."""

    def page(
        self,
        *,
        limit: int,
        cursor: str | None = None,
        queues: Sequence[str] = (),
        handler: str | None = None,
        max_read: int = 10_000,
    ) -> tuple[list[JobRecord], str | None]:
        """Jobs of any state, the last enqueued first, of these queues and this handler if given, without bodies.

        A replayed job counts from its replay. Reads at most `max_read` jobs: a page may be short, or empty, and still
        have a cursor. The cursor is None after the last job.
        """
        ...


class Payloads(Protocol):
    """The messages of ended jobs, which the backend keeps for a while; dead letters keep theirs."""

    def kept(self) -> PayloadSize:
        """How many ended jobs have their message, and how large these messages are."""
        ...

    def erase(self, before: int, limit: int, excess: int = 0) -> PayloadSize:
        """Erase up to `limit` messages of jobs that ended before this time, and more until `excess` bytes are erased.

        The oldest go first; those of the last minute stay. Return what was erased.
        """
        ...


class JobArchive(Jobs, Protocol):
    """Keeps records of jobs that live on a broker, which forgets them; workers write the records."""

    def save(self, records: Sequence[JobRecord]) -> None:
        """Replace the records with the same ids, unless they have a higher fence; failures are added up."""
        ...


def forget_results(archive: JobArchive, ids: Sequence[str]) -> list[str]:
    """`Jobs.forget` for an archive, whose records have no payload."""
    found = [record for id in dict.fromkeys(ids) if (record := archive.find(id)) and record.state in ENDED_WELL]
    archive.save([structs.replace(record, output=None) for record in found])
    return [record.id for record in found]


class AuditLog(Protocol):
    """Keeps what users did; nothing but its retention deletes a record."""

    def save(self, record: AuditRecord) -> None:
        """Store a record, or replace the one with its id."""
        ...

    def find(self, id: str) -> AuditRecord | None: ...

    def page(self, *, limit: int, before: str | None = None) -> list[AuditRecord]:
        """The newest first, which is the order of their ids; `before` is the id of the last record of the page before.

        A page costs what it shows.
        """
        ...

    def trim(self, before: int, limit: int) -> int:
        """Delete up to `limit` records from before this time, the oldest first; return how many."""
        ...


class QueueCounts(Protocol):
    """Counts the jobs of each queue and measures how long they wait."""

    def counts(self, *, ended: bool = True) -> dict[str, dict[str, int]]:
        """Queue → state → number of jobs, with every state named; a backend that forgets ended jobs counts 0.

        Counting done jobs may take long: without `ended` they count as 0.
        """
        ...

    def ended_since(self, state: str, queue: str, since: int, limit: int) -> int:
        """How many jobs of a queue ended in this state since a time, counted up to `limit`, by an index.

        A backend that does not know when its jobs ended counts 0.
        """
        ...

    def oldest(self, queues: Sequence[str]) -> dict[str, float] | None:
        """For each queue, how many seconds its oldest waiting job could have started earlier; None if unknown.

        The cost does not depend on the number of jobs. Jobs that came back count only when nothing else waits.
        Queues without waiting jobs are missing.
        """
        ...


class DeadLetters(Protocol):
    """The jobs that will not run again unless a user replays them."""

    def page(
        self, *, queue: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[JobRecord]:
        """Dead letters, oldest first; `after` is (finished_at, id) of the last one of the page before."""
        ...

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Make dead letters ready again with fresh counters and a growing fence; return the ids that were dead."""
        ...

    def discard(self, ids: Sequence[str]) -> list[str]:
        """Delete dead letters for good; return the ids that were dead."""
        ...

    def add(self, letters: Sequence[NewDeadLetter]) -> list[str]:
        """Store messages as dead letters without leasing them; return the ids that are new."""
        ...

    def trim(self, before: int, limit: int, queue: str | None = None) -> int:
        """Delete up to `limit` dead letters that died before this time; return how many."""
        ...


class JobControl(Protocol):
    """Reaches the jobs that have not ended: cancels and reschedules them, follows them, shows how they begin.

    A request to cancel a leased job is stored with its lease. An ack or an abandon ends the job as usual; when the job
    would wait again instead, after a nack or a reap, it ends as `cancelled` in that same step.
    Charges and failures are recorded as usual. Progress belongs to the lease and disappears with it.
    """

    def cancel(self, ids: Sequence[str]) -> dict[str, CancelResult]:
        """Cancel jobs: a waiting one ends as `cancelled` and is never leased, a leased one is `asked`,
        an ended one is `too_late`."""
        ...

    def cancel_requested(self, leases: Sequence[Lease]) -> list[Lease]:
        """Those of these leases, if still held, whose job was asked to stop; workers call this every second."""
        ...

    def save_progress(self, items: Sequence[tuple[Lease, Progress]]) -> None:
        """Store the progress of these leases; leases that are no longer held are ignored."""
        ...

    def reschedule(self, ids: Sequence[str], *, due: int = 0, delay: float = 0.0) -> dict[str, RescheduleResult]:
        """Let waiting jobs, also parked ones, start at `due`, or else `delay` seconds from now, and no sooner.

        Priority, order, counters and failures stay. A leased job is `running` and goes on.
        """
        ...

    def heads(self, *, limit: int, cursor: str | None = None) -> tuple[list[bytes], str | None]:
        """The first HEAD_BYTES bytes of the bodies of jobs that have not ended, and the cursor of the next page.

        The cursor is None after the last page. Jobs that are put or end meanwhile may be missed.
        """
        ...


class JobEnds(Protocol):
    """Tells callers that wait for jobs which of them have ended; `JobWaiter` is its only user."""

    def ended(self, ids: Sequence[str]) -> set[str]:
        """Those of these jobs that have ended, or that the backend does not know."""
        ...

    def watch(self, wakeup: Wakeup) -> AbstractContextManager[EndWait]:
        """A function with which one thread waits until jobs may have ended, or until the wakeup is set.

        A backend signals every end, however the job ended, but a signal may be lost, and come for any other reason.
        """
        ...


class WorkerRegistry(Protocol):
    """Knows which workers are alive."""

    def announce(self, worker: WorkerRecord, seconds: float) -> None:
        """This worker is alive; the registry forgets it unless it announces itself again within this time."""
        ...

    def remove(self, id: str) -> None:
        """This worker has stopped."""
        ...

    def alive(self) -> list[WorkerRecord]:
        """The workers that are alive, the longest running first."""
        ...

    def drop_dead(self, limit: int) -> int:
        """Delete up to `limit` workers that did not announce themselves again in time; return how many."""
        ...


class StatsStore(Protocol):
    """Stores what workers count, so that statistics cost the same however long the history is."""

    def save(self, tallies: Sequence[Tally]) -> None:
        """Replace what the same worker saved for the same slot, queue and handler."""
        ...

    def read(self, since: int, until: int) -> list[Tally]:
        """The tallies whose slot began at or after `since` and before `until`, oldest first."""
        ...

    def fold(self, before: int, limit: int) -> int:
        """Add up the tallies of different workers for slots before this time, up to `limit`; return how many."""
        ...

    def drop(self, before: int, limit: int) -> int:
        """Delete up to `limit` tallies of slots before this time; return how many."""
        ...


class Parking(Protocol):
    """Lets jobs wait for the keys of guards, at no cost while they wait."""

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        """Let jobs wait for their keys; a job whose key is free by now is ready again. Return the lost leases."""
        ...

    def wake(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        """Wake the first waiters of these keys, or of up to `limit` of all keys, whose time to try again has come.

        Return the keys that may still have waiters, and in how many seconds to call again.
        """
        ...

    def waiters(self, keys: Sequence[str], limit: int) -> dict[str, dict[str, int]]:
        """How many jobs wait for each of these keys, by queue; of each key the first `limit` are counted.

        Keys without waiters are missing.
        """
        ...


class UniqueJobs(Protocol):
    """Stores at most one unfinished job for each `unique` text."""

    def holders(self, uniques: Sequence[str]) -> dict[str, str]:
        """The ids of the jobs that wait or run with these texts."""
        ...


class Transactions(Protocol):
    """Stores messages inside a transaction of the caller."""

    def put(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        """As `Backend.put`, on the caller's connection: the messages exist once the caller commits.

        Workers find them at their next poll; with `wake` the database wakes them at the commit, where it can.
        """
        ...

    async def aput(self, connection: Any, messages: Sequence[Message], *, wake: bool = False) -> list[str]:
        """As `put`, on an async connection."""
        ...

    def holders(self, connection: Any, uniques: Sequence[str]) -> dict[str, str]:
        """As `UniqueJobs.holders`, as the transaction of this connection sees them."""
        ...

    async def aholders(self, connection: Any, uniques: Sequence[str]) -> dict[str, str]:
        """As `UniqueJobs.holders`, as the transaction of this async connection sees them."""
        ...

    def wake(self, queues: Sequence[str]) -> None:
        """Wake the workers of these queues after the caller's commit, where they would find the jobs only later."""
        ...


class Schema(Protocol):
    """The tables of the backend; `steps_taken` names the migrations since the backend was opened."""

    steps_taken: list[str]

    def version(self) -> tuple[int, int]:
        """The stored version and the version that this release needs."""
        ...

    def migrate(self) -> list[str]:
        """Apply the missing migrations; return their names."""
        ...

    def missing_indexes(self) -> list[str]:
        """The names of the indexes that are missing or not valid."""
        ...


class ServerInfo(Protocol):
    """Asks the server which promises its configuration keeps."""

    def facts(self) -> list[Fact]:
        """What `tenure health` shows: how durable a put is, how workers are woken."""
        ...


@dataclass(frozen=True)
class DatabaseFile:
    """A backend in one SQLite file of this host; the signing key lies beside it."""

    path: Path
    sqlite_version: tuple[int, ...]

    @property
    def key_path(self) -> Path:
        return key_file_of(self.path)


def key_file_of(database: Path) -> Path:
    return database.with_name(f"{database.name}.key")
