"""The settler: gathers verdicts and settles them in few round trips.

It flushes when the runner is idle, when a batch is full, or a few milliseconds after the first verdict:
what has run and is not settled runs again should this worker be killed.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import structs

from tenure.backends.contract import Abandon, Ack, Backend, Lease, Nack, Park, Parking, Verdict
from tenure.errors import BackendError
from tenure.events import Enqueued, LeaseLost, Listeners, NotBuried, Settled, Settlement, Status
from tenure.worker.chronicler import Chronicler
from tenure.worker.holdings import Holdings
from tenure.worker.outcomes import log_outcomes
from tenure.worker.pauses import Pauses
from tenure.worker.verdict import settlement
from tenure.worker.warden import Warden

logger = logging.getLogger(__name__)

V = TypeVar("V", Ack, Nack, Abandon, Park, Verdict)
E = TypeVar("E", Ack, Abandon)
F = TypeVar("F", Nack, Abandon)
FULL = 500  # larger batches gained nothing (docs/adr/0003)
FULL_OF_LONG = 10  # with 32 threads of 5 ms a kill repeated 50 finished jobs before
_LONG = 0.001  # seconds of a job: those that take less come in floods
LINGER = 0.01
_LAST_TRIES = 5


class Settler:
    """`tally` counts what became of every delivery so far; `worker` is the name that failures are kept under.

    A `recorder` is told of every verdict that was settled, a batch at a time.
    """

    def __init__(
        self,
        backend: Backend,
        holdings: Holdings,
        listeners: Listeners,
        warden: Warden,
        worker: str | None = None,
    ) -> None:
        self._worker = worker
        self.chronicler: Chronicler | None = None
        self._backend = backend
        self._warden = warden
        self._holdings = holdings
        self._listeners = listeners
        self._verdicts: deque[Verdict] = deque()
        self._first = threading.Event()
        self._hurry = threading.Event()
        self._full = FULL
        self._stopping = False
        self.ticked: float | None = None  # none while there is nothing to do
        self.tally: Counter[Status] = Counter()
        self.recorder: Callable[[Sequence[Verdict]], None] | None = None

    def settle(self, verdict: Verdict) -> None:
        self._verdicts.append(verdict)
        if not self._first.is_set():
            self._full = _full(verdict)
            self._first.set()
        if len(self._verdicts) >= self._full:
            self._hurry.set()

    def hurry(self) -> None:
        """Flush what there is: nothing more is coming soon."""
        if self._verdicts:
            self._hurry.set()

    def run(self) -> None:
        """Until told to stop and nothing is left."""
        while not (self._stopping and not self._verdicts):
            self.ticked = None
            self._first.wait()
            self.ticked = time.monotonic()
            self._hurry.wait(LINGER)
            self._first.clear()
            self._hurry.clear()
            self._flush([self._verdicts.popleft() for _ in range(len(self._verdicts))])

    def stop(self) -> None:
        """Settle the rest, then end."""
        self._stopping = True
        self._first.set()
        self._hurry.set()

    def _flush(self, verdicts: Sequence[Verdict]) -> None:
        verdicts = self._warden.attach(verdicts)
        lost = self._apply(self._warden.mark, verdicts)
        lost += self._apply(partial(self._end, self._backend.ack), [v for v in verdicts if isinstance(v, Ack)])
        lost += self._apply(self._backend.nack, [self._named(v) for v in verdicts if isinstance(v, Nack)])
        dead = [self._named(v) for v in verdicts if isinstance(v, Abandon)]
        lost += self._apply(self._bury, dead)
        if isinstance(self._backend, Parking):
            lost += self._apply(self._backend.park, [v for v in verdicts if isinstance(v, Park)])
        settlements = self._count(verdicts, lost)  # before it is dropped, or it would be nowhere for a moment
        self._holdings.drop([verdict.lease for verdict in verdicts])
        self._report(verdicts, settlements, lost)
        if self.chronicler is not None:
            gone = {(lease.id, lease.fence) for lease in lost}
            self.chronicler.take([each for each in verdicts if (each.lease.id, each.lease.fence) not in gone])

    def _named(self, verdict: F) -> F:
        """The verdict, its failure signed with the worker's name: the child that wrote it does not know it."""
        if verdict.failure is None:
            return verdict
        return structs.replace(verdict, failure=structs.replace(verdict.failure, worker=self._worker))

    def _apply(self, verb: Callable[[Sequence[V]], list[Lease]], verdicts: Sequence[V]) -> list[Lease]:
        """One verb on its verdicts, tried until the backend answers: finished work is not forgotten.

        A worker that stops gives up after a few tries; the leases then expire and the jobs run again.
        """
        pauses = Pauses()
        tries = 0
        while verdicts and not (self._stopping and tries >= _LAST_TRIES):
            try:
                return verb(verdicts)
            except BackendError as error:
                tries += 1
                self.ticked = time.monotonic()
                logger.warning("settling %d jobs failed: %s", len(verdicts), error)
                time.sleep(pauses.longer())
        return []

    def _end(self, verb: Callable[[Sequence[E]], list[Lease]], verdicts: Sequence[E]) -> list[Lease]:
        """End jobs, once those that follow them are put: a crash in between puts the same ids again, and no more."""
        follow = [message for verdict in verdicts for message in verdict.follow]
        if follow:
            new = set(self._backend.put(follow))
            for message in follow:
                if message.id in new:
                    self._listeners.emit(Enqueued(message.queue, message.handler, (message.id,)))
        return verb(verdicts)

    def _bury(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        try:
            return self._end(self._backend.abandon, verdicts)
        except BackendError as error:
            logger.critical("%d jobs could not be moved to the dead letters yet: %s", len(verdicts), error)
            for queue in {verdict.lease.queue for verdict in verdicts}:
                ids = tuple(each.lease.id for each in verdicts if each.lease.queue == queue)
                self._listeners.emit(NotBuried(queue, ids, str(error)))
            raise

    def _count(self, verdicts: Sequence[Verdict], lost: Sequence[Lease]) -> tuple[Settlement, ...]:
        refused = {(lease.id, lease.fence) for lease in lost}
        settlements = tuple(
            settlement(verdict)
            for verdict in verdicts
            if not refused or (verdict.lease.id, verdict.lease.fence) not in refused
        )
        self.tally.update([each.status for each in settlements])
        return settlements

    def _report(self, verdicts: Sequence[Verdict], settlements: tuple[Settlement, ...], lost: Sequence[Lease]) -> None:
        if settlements and self._listeners:
            self._listeners.emit(Settled(settlements))
        if lost:
            logger.warning("%d leases had passed to another holder; their settlement was refused", len(lost))
            self._listeners.emit(LeaseLost(tuple(lease.id for lease in lost), "settle"))
        if lost:
            refused = {(lease.id, lease.fence) for lease in lost}
            verdicts = [each for each in verdicts if (each.lease.id, each.lease.fence) not in refused]
        log_outcomes(verdicts)
        if self.recorder is not None:
            self.recorder(verdicts)


def _full(first: Verdict) -> int:
    """How many make a batch that begins with this one."""
    run = None if isinstance(first, Park) else first.run
    return FULL_OF_LONG if run is not None and run.seconds >= _LONG else FULL
