"""What a backend is: ten verbs on batches, and named parts for everything that only some backends can do.

A backend moves opaque bytes and grants leases; it never signs, decides, counts or logs outcomes.
Every settle and renewal checks the owner and the fence of the lease, and returns the leases that were lost.
The values that the verbs take and return are in `messages.py`, the parts in `parts.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tenure.backends.ends import PolledEnds
from tenure.backends.ledger import Ledger
from tenure.backends.messages import DEFAULT_SUSPECT_AFTER, Abandon, Ack, Lease, Message, Nack, ReapedLease
from tenure.backends.parts import (
    AuditLog,
    DatabaseFile,
    DeadLetters,
    JobArchive,
    JobControl,
    JobEnds,
    Jobs,
    Parking,
    Payloads,
    QueueCounts,
    RecentJobs,
    Schema,
    ServerInfo,
    StatsStore,
    Transactions,
    UniqueJobs,
    WorkerRegistry,
)
from tenure.backends.records import JobRecord
from tenure.errors import BackendError
from tenure.guards.store import Store
from tenure.wire.signing import Ring

P = TypeVar("P")


class Backend(Protocol):
    """Where messages wait; the conformance suite says what each verb promises.

    A backend derives from this class and sets the parts that it has in its constructor; the others stay None.
    """

    jobs: Jobs | None = None
    recent: RecentJobs | None = None
    payloads: Payloads | None = None
    queues: QueueCounts | None = None
    dead_letters: DeadLetters | None = None
    control: JobControl | None = None
    ends: JobEnds | None = None
    workers: WorkerRegistry | None = None
    stats: StatsStore | None = None
    guards: Store | None = None
    parking: Parking | None = None
    unique: UniqueJobs | None = None
    ledger: Ledger | None = None
    archive: JobArchive | None = None
    audit: AuditLog | None = None
    transactions: Transactions | None = None
    schema: Schema | None = None
    server: ServerInfo | None = None
    file: DatabaseFile | None = None
    in_process: bool = False  # True where messages never leave this process
    runs_on_put: bool = False  # True where put runs the job at once
    waits_rarely: bool = False  # True where a call for many jobs waits for its server only a few times

    def put(self, messages: Sequence[Message]) -> list[str]:
        """Store messages; return the ids that are new: a known id, even of an ended job, is stored once."""
        ...

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """Grant up to `limit` leases, starting with the first queue that has jobs; suspects are left out."""
        ...

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        """End jobs; return the leases that were lost."""
        ...

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        """Return jobs to their place; return the leases that were lost."""
        ...

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        """Move jobs to the dead letters, atomically; return the leases that were lost."""
        ...

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        """Extend leases; return the leases that were lost."""
        ...

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        """Return jobs whose lease expired to their place; after so many expiries in a row they become suspects.

        The expiry of a lease that was taken alone is a crash of its job, which stays a suspect.
        """
        ...

    def has_suspects(self, queues: Sequence[str]) -> bool:
        """Whether a suspect of these queues waits to be leased."""
        ...

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        """Grant a lease on one suspect of these queues, if there is one; the caller must hold no other lease."""
        ...

    def close(self) -> None: ...

    def use_keys(self, ring: Ring) -> None:  # noqa: ARG002 - most backends need no key
        """Take the app's keys; a backend that writes counters beside messages signs them, others ignore the keys."""
        return


@dataclass(frozen=True, slots=True)
class Parts:
    """What people and tools ask of a backend and the store beside it; each is None where neither has it.

    `archive` is where workers record jobs that the backend forgets; None where the backend has records itself.
    `inline_runs` is where schedulers record the jobs that they run themselves, which no backend stores.
    """

    jobs: Jobs | None
    recent: RecentJobs | None
    payloads: Payloads | None
    queues: QueueCounts | None
    dead_letters: DeadLetters | None
    control: JobControl | None
    ends: JobEnds | None
    workers: WorkerRegistry | None
    stats: StatsStore | None
    ledger: Ledger | None
    archive: JobArchive | None
    inline_runs: JobArchive | None
    audit: AuditLog | None

    def find(self, id: str) -> JobRecord | None:
        """The job with this id, or the inline run of a tick with this id."""
        record = None if self.jobs is None else self.jobs.find(id)
        return self.inline_runs.find(id) if record is None and self.inline_runs is not None else record


def parts_for(backend: Backend, store: Backend | None) -> Parts:
    """The parts of a backend, completed by those of the store beside it."""
    archive = store.archive if store is not None and backend.jobs is None else None
    jobs = backend.jobs or archive
    return Parts(
        jobs=jobs,
        recent=backend.recent,
        payloads=backend.payloads,
        queues=backend.queues,
        dead_letters=backend.dead_letters,
        control=backend.control,
        ends=backend.ends or (None if jobs is None else PolledEnds(jobs, knows_waiting_jobs=archive is None)),
        workers=backend.workers or (None if store is None else store.workers),
        stats=backend.stats or (None if store is None else store.stats),
        ledger=backend.ledger or (None if store is None else store.ledger),
        archive=archive,
        inline_runs=backend.archive or (None if store is None else store.archive),
        audit=backend.audit or (None if store is None else store.audit),
    )


def trim_ended(parts: Parts, state: str, before: int, limit: int, queue: str | None = None) -> int:
    """Delete up to `limit` jobs that ended in this state before this time, dead letters too; return how many."""
    if state != "dead":
        return 0 if parts.jobs is None else parts.jobs.trim(state, before, limit, queue)
    deleted = 0 if parts.dead_letters is None else parts.dead_letters.trim(before, limit, queue)
    return deleted + (0 if parts.archive is None else parts.archive.trim(state, before, limit, queue))


def required(part: P | None, what: str) -> P:
    """The part, or an error that says how to get it."""
    if part is None:
        raise BackendError(
            f"this backend keeps no {what}; name a place for them with the setting store, a database or Redis that all "
            'workers share, such as "redis://host" or "postgresql://host/name"'
        )
    return part
