"""The archive writer: writes a record of every settled job to the store, beside a broker that forgets its jobs.

A worker that is killed loses the records of its last moments; the jobs themselves are not affected.
While the store is down, the newest records wait in memory, up to a limit, and jobs continue to run.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tenure.backends.messages import Abandon, Ack, Nack, Park, Verdict
from tenure.backends.parts import JobArchive
from tenure.backends.records import FAILED_RUN, JobRecord
from tenure.clock import MICROSECOND, Clock, to_microseconds
from tenure.definition.duration import to_moment
from tenure.definition.failure import Failure, storable
from tenure.definition.limits import MAX_TEXT, Moment
from tenure.errors import BackendError, InvalidJob, Unstorable
from tenure.redaction import one_line
from tenure.wire.envelope import claimed_tags
from tenure.worker.roles import GrowingDelay

logger = logging.getLogger(__name__)

MAX_WAITING = 20_000  # records in memory
_BATCH = 500
_COLLECT_SECONDS = 0.02
_ROOM_TIMEOUT = 30.0  # how long the settler waits for room


class ArchiveWriter:
    """The settler calls `take`; the thread of this role writes."""

    def __init__(self, archive: JobArchive, clock: Clock) -> None:
        self._archive = archive
        self._clock = clock
        self._waiting: deque[tuple[int, Verdict]] = deque()
        self._changed = threading.Condition()
        self._has_records = threading.Event()
        self._is_store_down = False
        self._stopping = False

    def take(self, verdicts: Iterable[Verdict]) -> None:
        now = self._clock.now()
        with self._changed:
            self._changed.wait_for(self._may_take, _ROOM_TIMEOUT)
            self._waiting.extend((now, verdict) for verdict in verdicts)
            self._drop_oldest()
        self._has_records.set()

    def run(self) -> None:
        """Until it is stopped; then it writes what is left, if the store answers."""
        delay = GrowingDelay()
        while not self._stopping:
            if not self._waiting:
                self._has_records.wait()
                self._has_records.clear()
            if self._is_store_down:
                time.sleep(delay.next())
            else:
                delay.reset()
                time.sleep(_COLLECT_SECONDS)
            self._write()
        while self._waiting:
            self._write()
            if self._is_store_down:
                return

    def stop(self) -> None:
        self._stopping = True
        self._has_records.set()

    def _write(self) -> None:
        with self._changed:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._changed.notify_all()
        records = [record for now, verdict in batch if (record := record_of(verdict, now))]
        try:
            self._save(records)
            self._is_store_down = False
        except BackendError as error:
            level = logging.DEBUG if self._is_store_down else logging.WARNING  # an outage is one line
            logger.log(level, "%d job records could not be written yet: %s", len(records), error)
            self._is_store_down = True
            with self._changed:
                self._waiting.extendleft(reversed(batch))
                self._drop_oldest()

    def _save(self, records: Sequence[JobRecord]) -> None:
        """Save records; one that the store can never keep is left out, and the others are saved."""
        try:
            self._archive.save(records)
        except Exception as error:
            if isinstance(error, BackendError) and not isinstance(error, Unstorable):
                raise
            if len(records) == 1:
                logger.error("no record of job %s: %s", one_line(records[0].id), error)  # noqa: TRY400
                return
            middle = len(records) // 2
            self._save(records[:middle])
            self._save(records[middle:])

    def _may_take(self) -> bool:
        return self._is_store_down or self._stopping or len(self._waiting) < MAX_WAITING

    def _drop_oldest(self) -> None:
        """Drop the oldest records above the limit; called with the lock held."""
        lost = len(self._waiting) - MAX_WAITING
        for _ in range(lost):
            self._waiting.popleft()
        if lost > 0:
            logger.warning("%d job records are dropped: the store has been down for too long", lost)


def record_of(verdict: Verdict, now: int) -> JobRecord | None:
    """The record of a job after this verdict; None when the verdict changed nothing about it."""
    if isinstance(verdict, Ack):
        return _record(verdict, verdict.state, now, (), verdict.lease.due, verdict.output, verdict.seconds)
    if isinstance(verdict, Park) or (verdict.charge is None and verdict.failure is None):
        return None
    failures = () if verdict.failure is None else (verdict.failure,)
    if isinstance(verdict, Abandon):
        return _record(verdict, "dead", now, failures, verdict.lease.due)
    due = now + round(verdict.delay * MICROSECOND)
    return _record(verdict, "delayed" if verdict.delay else "ready", None, failures, due)


def inline_record(verdict: Verdict, now: int) -> JobRecord:
    """The record of a job that ran inline, for one attempt, and that no backend stores."""
    if isinstance(verdict, (Nack, Park)):
        key = f", {verdict.key!r}" if isinstance(verdict, Park) else ""
        failure = Failure("JobFailed", f"it may not run now: {verdict.reason}{key}", now, 1)
        verdict = Abandon(lease=verdict.lease, reason=verdict.reason or "postponed", failure=failure)
    if isinstance(verdict, Ack):
        return _record(verdict, verdict.state, now, (), verdict.lease.due, verdict.output, verdict.seconds)
    failures = () if verdict.failure is None else (verdict.failure,)
    seconds = None if verdict.run is None else verdict.run.seconds
    return _record(verdict, FAILED_RUN, now, failures, verdict.lease.due, None, seconds)


def _record(
    verdict: Ack | Nack | Abandon,
    state: str,
    finished: int | None,
    failures: tuple[Failure, ...],
    due: int,
    *result: Any,
) -> JobRecord:
    """`result` is the output and the seconds of the run, or empty."""
    lease = verdict.lease
    charge = None if isinstance(verdict, Ack) else verdict.charge
    handler, name, enqueued = _labels(lease.body)
    output, seconds = result or (None, None)
    return JobRecord(
        id=lease.id,
        queue=lease.queue,
        handler=handler,
        name=name,
        state=state,
        priority=lease.priority,
        attempts=lease.attempts + (charge == "attempt"),
        crashes=lease.crashes + (charge == "crash"),
        fence=lease.fence,
        enqueued_at=enqueued or lease.due,
        due_at=due,
        finished_at=finished,
        owner=None if finished is None else lease.owner,
        seconds=seconds,
        reason=verdict.reason,
        output=output,
        failures=failures,
        run=verdict.run,
        tags=claimed_tags(lease.body),
    )


class _Labels(Struct, rename="camel", gc=False):
    """The fields of a message that a record shows; skipping the others takes a third of the time."""

    job: str
    name: str | None = None
    created_at: Moment | None = None


_decode = msgspec.json.Decoder(_Labels).decode


def _labels(body: bytes) -> tuple[str, str | None, int | None]:
    """Handler, name and time of enqueue from the message, which may be forged; defaults if it cannot be decoded."""
    try:
        labels = _decode(body)
        created = None if labels.created_at is None else to_microseconds(to_moment(labels.created_at, "createdAt"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidJob):
        return "unknown", None, None
    name = None if labels.name is None else storable(labels.name)[:MAX_TEXT]
    return storable(labels.job)[:200], name, created
