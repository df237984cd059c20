"""Records: what a backend knows about a job, a worker or its server, as plain values for people and tools.

The functions are shared by every job archive: a worker writes the record of each job that it settles, and the record
with the highest fence wins.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from tenure.backends.messages import Message
from tenure.definition.context import Progress
from tenure.definition.failure import KEPT_FAILURES, VANISHED, Failure
from tenure.errors import InvalidFilter
from tenure.events import END_STATES, Run
from tenure.events import CancelResult as CancelResult
from tenure.events import RescheduleResult as RescheduleResult

FAILED_RUN = "failed"  # the state of an inline run that failed: it is not a dead letter, and cannot be replayed
_LAST_KEY = 1 << 62
_KEY_DIGITS = 20  # more than a key has
ARCHIVED_ENDS = (*END_STATES, FAILED_RUN)  # the states in which the record of an archive is final


class JobRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a backend knows about one job; times are UTC microseconds.

    `run` describes the last attempt of an ended job; `failures` lists the attempts that failed.
    `is_erased`: the backend kept the body after the end of the job, and has erased it since.
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
    is_erased: bool = False
    tags: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """How often the job is known to have run: failures, crashes, workers that vanished, and the run that succeeded.

        A job that a worker holds now counts as running.
        """
        vanished = sum(failure.type == VANISHED for failure in self.failures)
        return self.attempts + self.crashes + vanished + (self.state in ("done", "leased"))


class PayloadSize(NamedTuple):
    """How many jobs have payloads, and their bytes together."""

    jobs: int
    bytes: int


class NewDeadLetter(Struct, frozen=True, kw_only=True):
    """A message to store directly among the dead letters, with what is recorded about it."""

    message: Message
    reason: str
    attempts: int = 0
    failure: Failure | None = None


class LaneRecord(Struct, frozen=True, kw_only=True):
    """A lane of a worker, as other processes see it; a lane that a command line made has no name.

    `held` is the number of jobs that the lane holds: they run, or wait in the worker.
    """

    name: str
    queues: tuple[str, ...]
    runner: str
    concurrency: int
    held: int = 0


class RunningJob(Struct, frozen=True, kw_only=True):
    """A job that runs in a worker, as the worker knows it; `started_at` is in UTC microseconds."""

    id: str
    handler: str
    name: str | None
    queue: str
    lane: str
    started_at: int


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker, as other processes see it; `id` is new at every start, times are UTC microseconds.

    `jobs` are the ids that the worker holds; `runner` and `concurrency` sum up its lanes.
    `running` are the jobs that have run the longest, at most 10, the longest first.
    `rates` are the jobs that it ended per second, by queue, over about a minute.
    `live` is the number of unfinished jobs of each queue at `live_at`, if this worker counted them.
    `handlers` and `kids` name the handlers and keys that the worker has; workers of older releases leave them empty.
    `draining_since` is when a user told it to lease no more jobs, as far as the worker knows; 0 if it leases.
    `memory` are the resident bytes of its process and its children, `peak_child` those of the largest process that runs
    jobs; such a process is replaced above `max_memory` bytes. They are 0 if not known, or without a limit.
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
    draining_since: int = 0
    draining_reason: str | None = None
    memory: int = 0
    peak_child: int = 0
    max_memory: int = 0
    running: tuple[RunningJob, ...] = ()


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user did: who, what, to which jobs, how many, why, when; times are UTC microseconds.

    `id` is a UUIDv7, so that ids are in the order of time. `origin` is web, api, cli or python; `state` is running,
    done, stopped or failed.
    """

    id: str
    at: int
    actor: str  # the name of the user
    action: str  # such as "jobs.cancel" or "queue.pause"
    target: str  # the ids, the filter, or the name of what was changed
    why: str | None = None
    origin: str = "web"
    state: str = "done"
    total: int | None = None  # how many jobs were selected
    counts: dict[str, int] = {}  # how many had each result
    ended_at: int | None = None
    error: str | None = None


class Fact(Struct, frozen=True):
    """A statement about a backend's configuration; a `warning` is one that an operator should act on."""

    about: str
    text: str
    warning: bool = False


encode = msgspec.json.Encoder().encode
decode_record = msgspec.json.Decoder(JobRecord).decode
decode_audit = msgspec.json.Decoder(AuditRecord).decode


def sort_time(record: JobRecord) -> int:
    """When the job ended, or will run again."""
    return record.finished_at or record.due_at


def tagged_page(records: Iterable[JobRecord], limit: int, cursor: str | None) -> tuple[list[JobRecord], str | None]:
    """A page of records with one tag, the newest enqueue first; the cursor is the place of the last one shown."""
    ordered = sorted(records, key=_enqueue_place, reverse=True)
    if cursor is not None:
        after = read_place(cursor)
        ordered = [record for record in ordered if _enqueue_place(record) < after]
    page = ordered[:limit]
    return page, write_place(page[-1]) if len(page) == limit else None


def read_key(cursor: str | None) -> int:
    """The key of the last job that a page of recent jobs has read; without a cursor one that is larger than all keys.

    Users can change a cursor, so it is checked.
    """
    if cursor is None:
        return _LAST_KEY
    key = int(cursor) if cursor.isascii() and cursor.isdecimal() and len(cursor) < _KEY_DIGITS else _LAST_KEY
    if key >= _LAST_KEY:
        raise InvalidFilter(f"{cursor!r:.80} is not the cursor of a page of recent jobs")
    return key


def write_place(record: JobRecord) -> str:
    """The cursor after this record in a list by time of enqueue."""
    return encode(_enqueue_place(record)).decode()


read_place = msgspec.json.Decoder(tuple[int, str]).decode


def _enqueue_place(record: JobRecord) -> tuple[int, str]:
    return record.enqueued_at, record.id


def by_prefix(records: Iterable[JobRecord], prefix: str, limit: int) -> list[JobRecord]:
    """The records whose ids start with a prefix as `Jobs.with_prefix` returns them."""
    ordered = sorted(records, key=lambda record: record.id)
    return ordered[: 1 if ordered and ordered[0].id == prefix else limit]


def merge_records(known: Mapping[str, JobRecord], records: Sequence[JobRecord]) -> dict[str, JobRecord]:
    """The records to store instead of the known ones, by id; a record with a lower fence is ignored."""
    merged: dict[str, JobRecord] = {}
    for record in records:
        before = merged.get(record.id) or known.get(record.id)
        if before is None:
            merged[record.id] = record
        elif before.fence <= record.fence:
            added = tuple(failure for failure in record.failures if failure not in before.failures)
            merged[record.id] = structs.replace(record, failures=(*before.failures, *added)[-KEPT_FAILURES:])
    return merged
