"""The settler: collects verdicts and settles them in few calls of the backend.

It flushes when the runner is idle, when a batch is full, or a few milliseconds after the first verdict:
a job that has run and is not settled runs again if this worker is killed.

A verdict that the backend can never store is found by settling the verdicts of its batch in ever smaller parts; its job
becomes a dead letter, and the others are settled as they are.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import structs

from tenure.backends.contract import Backend
from tenure.backends.messages import Abandon, Ack, Lease, Nack, Park, Verdict
from tenure.errors import BackendError, Unstorable
from tenure.events import Enqueued, LeaseLost, Listeners, NotBuried, Settled, Settlement, Status
from tenure.redaction import one_line
from tenure.worker.archive_writer import ArchiveWriter
from tenure.worker.guard_holder import GuardHolder, LeaseKey
from tenure.worker.inbox import HeldLeases
from tenure.worker.logs import log_outcomes
from tenure.worker.logs import logger as outcome_logger
from tenure.worker.pipeline import UNSTARTED, settlements_of
from tenure.worker.roles import GrowingDelay

logger = logging.getLogger(__name__)

V = TypeVar("V", Ack, Nack, Abandon, Park, Verdict)
E = TypeVar("E", Ack, Abandon)
F = TypeVar("F", Nack, Abandon)
BATCH_SIZE = 500  # larger batches gained nothing (docs/adr/0003)
LONG_JOB_BATCH_SIZE = 10  # with BATCH_SIZE, 32 threads and jobs of 5 ms, a kill repeated 50 finished jobs
FLUSH_DELAY = 0.01
_LONG_JOB_SECONDS = 0.001  # shorter jobs end in large numbers at once
_TRIES_WHILE_STOPPING = 5


class Settler:
    """`tally` counts the status of every delivery so far; `worker` is the name stored with failures.

    `recorder` is called with the verdicts that were settled, one batch at a time.
    """

    def __init__(
        self,
        backend: Backend,
        held: HeldLeases,
        listeners: Listeners,
        guards: GuardHolder,
        worker: str | None = None,
        max_delay: float = 5.0,
        bury: Callable[[Lease, Exception], Abandon] | None = None,
    ) -> None:
        """After an outage it settles within `max_delay` seconds: the workers reap again one lease after it.

        `bury` makes the verdict on a job whose own verdict cannot be stored.
        """
        self._worker = worker
        self._max_delay = max_delay
        self._bury = bury or _bury_without_details
        self._refused: dict[LeaseKey, Exception] = {}
        self._backend = backend
        self._guards = guards
        self._held = held
        self._listeners = listeners
        self._verdicts: deque[Verdict] = deque()
        self._first = threading.Event()
        self._flush_now = threading.Event()
        self._batch_size = BATCH_SIZE
        self._stopping = False
        self.ticked: float | None = None  # None while there is nothing to do
        self.tally: Counter[Status] = Counter()
        self.recorder: Callable[[Sequence[Verdict]], None] | None = None
        self.archive_writer: ArchiveWriter | None = None

    def settle(self, verdict: Verdict) -> None:
        self._verdicts.append(verdict)
        if not self._first.is_set():
            self._batch_size = _batch_size(verdict)
            self._first.set()
        if len(self._verdicts) >= self._batch_size:
            self._flush_now.set()

    def flush_soon(self) -> None:
        """Flush what there is: the runner is idle, so no further verdicts come soon."""
        if self._verdicts:
            self._flush_now.set()

    def run(self) -> None:
        """Until it is stopped and nothing is left."""
        while not (self._stopping and not self._verdicts):
            self.ticked = None
            self._first.wait()
            self.ticked = time.monotonic()
            self._flush_now.wait(FLUSH_DELAY)
            self._first.clear()
            self._flush_now.clear()
            self._flush([self._verdicts.popleft() for _ in range(len(self._verdicts))])

    def stop(self) -> None:
        """Settle the rest, then end."""
        self._stopping = True
        self._first.set()
        self._flush_now.set()

    def _flush(self, given: Sequence[Verdict]) -> None:
        verdicts = self._guards.attach(given)
        lost = [] if verdicts is given else self._apply(self._guards.mark, verdicts)  # else no job had a guard
        verdicts = self._buried(verdicts)
        acks = [v for v in verdicts if type(v) is Ack]
        lost += self._apply(partial(self._end, self._backend.ack), acks)
        dead: list[Abandon] = []
        if self._refused or len(acks) < len(verdicts):  # of most batches nothing is left: one pass was enough
            lost += self._return(verdicts)
            verdicts = self._buried(verdicts)
            dead = [self._signed(v) for v in verdicts if isinstance(v, Abandon)]
            lost += self._apply(self._abandon, dead)
            lost += self._abandon_refused(dead)
        settled = _without(verdicts, lost)
        settlements = self._count(settled)  # before the leases are dropped: a job must always be counted somewhere
        self._held.drop([verdict.lease for verdict in verdicts])
        self._report(settlements, lost)
        if dead or outcome_logger.isEnabledFor(logging.INFO):
            log_outcomes(settled)
        if self.recorder is not None:
            self.recorder(settled)
        if self.archive_writer is not None:
            self.archive_writer.take(settled)

    def _return(self, verdicts: Sequence[Verdict]) -> list[Lease]:
        """Settle the jobs that are not over; returns the lost leases."""
        lost = self._apply(self._backend.nack, [self._signed(v) for v in verdicts if isinstance(v, Nack)])
        if self._backend.parking is not None:
            lost += self._apply(self._backend.parking.park, [v for v in verdicts if isinstance(v, Park)])
        return lost

    def _apply(self, verb: Callable[[Sequence[V]], list[Lease]], verdicts: Sequence[V]) -> list[Lease]:
        """Call one verb with its verdicts until the backend answers: finished work must not be lost.

        A worker that stops gives up after a few tries; the leases then expire and the jobs run again.
        """
        delay: GrowingDelay | None = None
        tries = 0
        while verdicts and not (self._stopping and tries >= _TRIES_WHILE_STOPPING):
            try:
                return verb(verdicts)
            except Exception as error:
                if _is_final(error):
                    return self._apply_parts(verb, verdicts)
                tries += 1
                delay = delay or GrowingDelay(longest=self._max_delay)
                self.ticked = time.monotonic()
                self._guards.outage.failed(logger, f"settling {len(verdicts)} jobs", error)
                time.sleep(delay.next())
        return []

    def _apply_parts(self, verb: Callable[[Sequence[V]], list[Lease]], verdicts: Sequence[V]) -> list[Lease]:
        """One of these verdicts may be impossible to store: settle the others, and note it as refused."""
        if len(verdicts) > 1:
            middle = len(verdicts) // 2
            return self._apply(verb, verdicts[:middle]) + self._apply(verb, verdicts[middle:])
        try:
            return verb(verdicts)  # once more: an error that does not come again was not its own
        except Exception as error:
            if not _is_final(error):
                return self._apply(verb, verdicts)
            self._refused[_key(verdicts[0])] = error
            return []

    def _buried(self, verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
        """The verdicts, with a death in the place of each one that was refused."""
        if not self._refused:
            return verdicts
        refused, self._refused = self._refused, {}
        return [self._bury(v.lease, refused[_key(v)]) if _key(v) in refused else v for v in verdicts]

    def _abandon_refused(self, dead: Sequence[Abandon]) -> list[Lease]:
        """Abandon, without callbacks and details, the jobs whose death was refused too; returns the lost leases."""
        if not self._refused:
            return []
        plain = [Abandon(lease=v.lease, reason=v.reason, charge=v.charge) for v in dead if _key(v) in self._refused]
        self._refused = {}
        lost = self._apply(self._backend.abandon, plain)
        for verdict in plain:
            if error := self._refused.pop(_key(verdict), None):
                logger.critical(
                    "job %s cannot be settled in any way: %s", one_line(verdict.lease.id), one_line(str(error))
                )
                lost.append(verdict.lease)
        return lost

    def _end(self, verb: Callable[[Sequence[E]], list[Lease]], verdicts: Sequence[E]) -> list[Lease]:
        """End jobs after their callbacks are put. A crash in between puts the same ids again, which changes nothing."""
        callbacks = [message for verdict in verdicts for message in verdict.follow]
        if callbacks:
            new = set(self._backend.put(callbacks))
            for message in callbacks:
                if message.id in new:
                    self._listeners.emit(Enqueued(message.queue, message.handler, (message.id,)))
        return verb(verdicts)

    def _abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        try:
            return self._end(self._backend.abandon, verdicts)
        except BackendError as error:
            logger.critical("%d jobs could not be moved to the dead letters yet: %s", len(verdicts), error)
            for queue in {verdict.lease.queue for verdict in verdicts}:
                ids = tuple(each.lease.id for each in verdicts if each.lease.queue == queue)
                self._listeners.emit(NotBuried(queue, ids, str(error)))
            raise

    def _signed(self, verdict: F) -> F:
        """The verdict with the worker's name in its failure: the child that wrote the failure does not know it."""
        if verdict.failure is None:
            return verdict
        return structs.replace(verdict, failure=structs.replace(verdict.failure, worker=self._worker))

    def _count(self, settled: Sequence[Verdict]) -> tuple[Settlement, ...]:
        settlements = settlements_of(settled)
        # A job that goes back unstarted keeps its place and is leased again: nothing became of it yet.
        self.tally.update([each.status for each in settlements if each.reason != UNSTARTED])
        return settlements

    def _report(self, settlements: tuple[Settlement, ...], lost: Sequence[Lease]) -> None:
        if settlements and self._listeners:
            self._listeners.emit(Settled(settlements))
        if lost:
            logger.warning("%d leases had passed to another holder; their settlement was refused", len(lost))
            self._listeners.emit(LeaseLost(tuple(lease.id for lease in lost), "settle"))


def _is_final(error: Exception) -> bool:
    """Whether the same verdicts would fail again: the error is that of one of them, not of the backend."""
    return (
        not isinstance(error, BackendError) or isinstance(error, Unstorable) or isinstance(error.__cause__, Unstorable)
    )


def _bury_without_details(lease: Lease, error: Exception) -> Abandon:  # noqa: ARG001
    return Abandon(lease=lease, reason="unprocessable")


def _key(verdict: Verdict) -> LeaseKey:
    return verdict.lease.id, verdict.lease.fence


def _without(verdicts: Sequence[Verdict], lost: Sequence[Lease]) -> Sequence[Verdict]:
    """The verdicts that the backend accepted."""
    if not lost:
        return verdicts
    refused = {(lease.id, lease.fence) for lease in lost}
    return [verdict for verdict in verdicts if (verdict.lease.id, verdict.lease.fence) not in refused]


def _batch_size(first: Verdict) -> int:
    """How many verdicts make a full batch that begins with this one."""
    run = None if isinstance(first, Park) else first.run
    return LONG_JOB_BATCH_SIZE if run is not None and run.seconds >= _LONG_JOB_SECONDS else BATCH_SIZE
