"""The chronicler: writes down what a worker has settled, beside a broker which forgets its jobs.

A worker that is killed takes the records of its last moments with it; the jobs themselves are not concerned.
While the store is away the newest records wait for it, so many of them; work goes on.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tenure.backends.asking import JobRecord
from tenure.backends.chronicle import Chronicle
from tenure.backends.contract import Abandon, Ack, Nack, Park, Verdict
from tenure.clock import MICROSECOND, Clock, to_microseconds
from tenure.definition.failure import Failure
from tenure.errors import BackendError
from tenure.worker.pauses import Pauses

logger = logging.getLogger(__name__)

_BATCH = 500
_MOST = 20_000  # that wait to be written down
_LINGER = 0.02
_PATIENCE = 30.0  # that a settler waits for room


class Chronicler:
    """`take` is called by the settler; the writing is done by a role of its own."""

    def __init__(self, chronicle: Chronicle, clock: Clock) -> None:
        self._chronicle = chronicle
        self._clock = clock
        self._waiting: deque[tuple[int, Verdict]] = deque()
        self._room = threading.Condition()
        self._some = threading.Event()
        self._is_away = False
        self._stopping = False

    def take(self, verdicts: Iterable[Verdict]) -> None:
        now = self._clock.now()
        with self._room:
            self._room.wait_for(lambda: self._is_away or self._stopping or len(self._waiting) < _MOST, _PATIENCE)
            self._waiting.extend((now, verdict) for verdict in verdicts)
            self._let_go()
        self._some.set()

    def run(self) -> None:
        """Until told to stop; then what is left is written, if the store is there."""
        pauses = Pauses()
        while not self._stopping:
            if not self._waiting:
                self._some.wait()
                self._some.clear()
            if self._is_away:
                time.sleep(pauses.longer())
            else:
                pauses.reset()
                time.sleep(_LINGER)
            self._write()
        while self._waiting:
            self._write()
            if self._is_away:
                return

    def stop(self) -> None:
        self._stopping = True
        self._some.set()

    def _write(self) -> None:
        with self._room:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._room.notify_all()
        records = [record for now, verdict in batch if (record := record_of(verdict, now))]
        try:
            self._chronicle.note(records)
            self._is_away = False
        except BackendError as error:
            logger.warning("%d jobs could not be written down yet: %s", len(records), error)
            self._is_away = True
            with self._room:
                self._waiting.extendleft(reversed(batch))
                self._let_go()

    def _let_go(self) -> None:
        """The oldest of what waits, if that is too much; called with the lock."""
        lost = len(self._waiting) - _MOST
        for _ in range(lost):
            self._waiting.popleft()
        if lost > 0:
            logger.warning("%d jobs are not written down: the store has been away for too long", lost)


def record_of(verdict: Verdict, now: int) -> JobRecord | None:
    """What is to be remembered of a job after this verdict; None when nothing has happened to it."""
    if isinstance(verdict, Ack):
        return _record(verdict, verdict.state, now, (), verdict.lease.due, verdict.output, verdict.seconds)
    if isinstance(verdict, Park) or (verdict.charge is None and verdict.failure is None):
        return None
    failures = () if verdict.failure is None else (verdict.failure,)
    if isinstance(verdict, Abandon):
        return _record(verdict, "dead", now, failures, verdict.lease.due)
    due = now + round(verdict.delay * MICROSECOND)
    return _record(verdict, "delayed" if verdict.delay else "ready", None, failures, due)


def _record(
    verdict: Ack | Nack | Abandon,
    state: str,
    finished: int | None,
    failures: tuple[Failure, ...],
    due: int,
    *result: Any,
) -> JobRecord:
    """`result` is output and seconds."""
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
    )


class _Labels(Struct, rename="camel", gc=False):
    """What is shown of a message; the rest is skipped, which takes a third of the time."""

    job: str
    name: str | None = None
    created_at: datetime | None = None


_decode = msgspec.json.Decoder(_Labels).decode


def _labels(body: bytes) -> tuple[str, str | None, int | None]:
    """Handler, name and time of enqueue, as the message says; one that nobody could open tells nothing."""
    try:
        labels = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "unknown", None, None
    created = None if labels.created_at is None else to_microseconds(labels.created_at)
    return labels.job[:200], labels.name, created
