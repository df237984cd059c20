"""OutboxRelay: moves the jobs of one outbox to their backends, under the same ids.

It claims rows, puts their jobs, and deletes the rows. Killed between any two of these steps, the rows can be claimed
again after a while, and the jobs are put again; a backend that stores an id once ignores that. Several relays share the
work. Each backend has a thread, so one that is slow or does not answer holds back its own jobs only.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from tenure.app.open_backends import OpenBackend
from tenure.app.outbox.delivery import Delivery, deliver
from tenure.backends.messages import enqueued_events
from tenure.backends.sql.connections import poll
from tenure.backends.sql.outbox.database import MAX_BATCH, OutboxClaim, OutboxDatabase, OutboxEntry
from tenure.errors import BackendError, SettingsError, TenureError, UnknownBackend
from tenure.events import Listeners, OutboxRelayed
from tenure.worker.roles import GrowingDelay, OutageLog

logger = logging.getLogger(__name__)
# For `drain`, which reports outages to its caller. No configuration of logging reaches a logger that is made like this.
_unlogged = logging.Logger(f"{__name__}.unlogged", logging.CRITICAL + 1)

CLAIM_SECONDS = 60.0  # after a killed relay its rows wait so long; a put of a batch takes less
# Of a backend that does not recognise an id: so many jobs may run twice after a relay was killed.
_BATCH_WITHOUT_IDS = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 3600.0  # between two tries of a refused job
_POLL_SECONDS = 0.1
_MAX_THREADS = 100  # of one relay: the backends that may keep it waiting at once


def pause_after(tries: int) -> float:
    """How long a job waits that was refused so many times."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 20))


@dataclass(slots=True)
class Moved:
    """How many jobs a relay has moved, dropped as duplicates of unique jobs, and recorded as refused."""

    relayed: int = 0
    dropped: int = 0
    refused: int = 0

    def add(self, other: "Moved") -> None:
        self.relayed += other.relayed
        self.dropped += other.dropped
        self.refused += other.refused


@dataclass(slots=True)
class _Outage:
    """Whether a database or backend answers, and when it is asked again."""

    log: OutageLog = field(default_factory=OutageLog)
    delays: GrowingDelay = field(default_factory=lambda: GrowingDelay(first=0.1))
    until: float = 0.0

    @property
    def is_waiting(self) -> bool:
        return time.monotonic() < self.until

    def failed(self, what: str, error: Exception, role_logger: logging.Logger) -> None:
        self.log.failed(role_logger, what, error)
        self.until = time.monotonic() + self.delays.next()

    def answered(self) -> None:
        if self.log.is_on:
            self.log.answered()
        self.delays.reset()


class OutboxRelay:
    """A role for one database; `find_backend` opens a backend by its name, None is that of the app."""

    def __init__(
        self,
        name: str,
        open_database: Callable[[], OutboxDatabase],
        find_backend: Callable[[str | None], OpenBackend],
        listeners: Listeners,
    ) -> None:
        self.name = name
        self.moved = Moved()
        self.last_error: Exception | None = None
        self.ready = threading.Event()
        self._open_database = open_database
        self._find_backend = find_backend
        self._listeners = listeners
        self._database: OutboxDatabase | None = None
        self._outage = _Outage()
        self._outages: dict[str, _Outage] = {}
        self._threads = ThreadPoolExecutor(_MAX_THREADS, "tenure-outboxrelay")
        self._moving: dict[str, Future[bool]] = {}  # the batch of each backend that is not yet moved
        self._recording = threading.Lock()
        self._stored: list[int] = []  # rows whose jobs are in their backend; deleting them has failed
        self._logger = logger
        self._stopping = threading.Event()
        self._last_beat = self._last_work = time.monotonic()

    def run(self) -> None:
        """Move jobs until `stop` is called."""
        try:
            while not self._stopping.is_set():
                if not self.beat(_POLL_SECONDS):
                    poll(_POLL_SECONDS, self._last_work)
        finally:
            self.close()

    def stop(self) -> None:
        self._stopping.set()

    def silence(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._last_beat

    def drain(self) -> Moved:
        """Move what is there now; jobs whose backend does not answer stay, and `last_error` says why.

        The caller reports that error, so it is not logged.
        """
        self._logger = _unlogged
        while self.beat() and not self._stopping.is_set():
            pass
        self.close()
        return self.moved

    def close(self) -> None:
        """Wait for the batches that are being moved, and close the database."""
        self._threads.shutdown()
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def beat(self, patience: float | None = None) -> bool:
        """Move a batch for each backend that has jobs; return whether any job was moved.

        It waits for all of them, or with `patience` for the first one, at most so long; a later beat meets the others.
        """
        if self._outage.is_waiting:
            return False
        try:
            has_moved = self._move_batches(patience)
        except TenureError as error:
            self.last_error = error
            self._outage.failed(f"reading the outbox {self.name!r}", error, self._logger)
            return False
        finally:
            self._last_beat = time.monotonic()
            self.ready.set()
        self._outage.answered()
        return has_moved

    def _move_batches(self, patience: float | None) -> bool:
        database = self._opened()
        self._delete_stored(database)
        for backend in database.due_backends():
            outage = self._outages.setdefault(backend, _Outage())
            if backend not in self._moving and not outage.is_waiting and not self._stopping.is_set():
                self._moving[backend] = self._threads.submit(self._move_batch, database, backend, outage)
        wait(self._moving.values(), patience, ALL_COMPLETED if patience is None else FIRST_COMPLETED)
        ended = [self._moving.pop(backend) for backend, batch in list(self._moving.items()) if batch.done()]
        moved = [batch.result() for batch in ended]
        if any(moved):
            self._last_work = time.monotonic()
        return any(moved)

    def _opened(self) -> OutboxDatabase:
        if self._database is None:
            database = self._open_database()
            try:
                database.check()
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _move_batch(self, database: OutboxDatabase, backend: str, outage: _Outage) -> bool:
        try:
            opened = self._find_backend(backend or None)
        except UnknownBackend as error:
            return self._refuse_all(database, backend, error)
        except (BackendError, SettingsError) as error:
            self._backend_failed(backend, outage, error)
            return False
        limit = MAX_BATCH if opened.backend.jobs is not None else _BATCH_WITHOUT_IDS
        claim = database.claim(backend, 1 if outage.log.is_on else limit, CLAIM_SECONDS)
        if not claim.entries:
            return False
        delivery = deliver(opened.backend, [entry.message for entry in claim.entries])
        if delivery.unavailable:
            self._backend_failed(backend, outage, next(iter(delivery.unavailable.values())))
        elif outage.log.is_on and not delivery.has_answered:
            self._backend_failed(backend, outage, next(iter(delivery.refused.values())))
        else:
            outage.answered()
        self._record(database, backend, claim, delivery)
        return len(delivery.unavailable) < len(claim.entries)

    def _refuse_all(self, database: OutboxDatabase, backend: str, error: UnknownBackend) -> bool:
        claim = database.claim(backend, MAX_BATCH, CLAIM_SECONDS)
        self._record(database, backend, claim, Delivery(refused={each.message.id: error for each in claim.entries}))
        return bool(claim.entries)

    def _record(self, database: OutboxDatabase, backend: str, claim: OutboxClaim, delivery: Delivery) -> None:
        """Delete the rows of jobs that are in their backend; give back or refuse the others."""
        kept = delivery.unavailable.keys() | delivery.refused.keys()
        done = [entry for entry in claim.entries if entry.message.id not in kept]
        with self._recording:
            self._stored += [entry.number for entry in done]
            self._emit(backend, done, delivery)
        self._delete_stored(database)
        if delivery.refused:
            refused = [(entry, delivery.refused[entry.message.id]) for entry in claim.entries
                       if entry.message.id in delivery.refused]  # fmt: skip
            self._log_refused(refused)
            database.refuse(claim, [(entry, _shown(error)) for entry, error in refused], pause_after)
        if delivery.unavailable:
            database.release(claim, [entry for entry in claim.entries if entry.message.id in delivery.unavailable])

    def _delete_stored(self, database: OutboxDatabase) -> None:
        with self._recording:
            if self._stored:
                database.delete(self._stored)
                self._stored = []

    def _emit(self, backend: str, done: list[OutboxEntry], delivery: Delivery) -> None:
        moved = Moved(len(done) - len(delivery.dropped), len(delivery.dropped), len(delivery.refused))
        self.moved.add(moved)
        if not self._listeners or not (done or delivery.refused):
            return
        for event in enqueued_events(entry.message for entry in done if entry.message.id in delivery.new):
            self._listeners.emit(event)
        self._listeners.emit(OutboxRelayed(self.name, backend, moved.relayed, moved.dropped, moved.refused))

    def _backend_failed(self, backend: str, outage: _Outage, error: Exception) -> None:
        self.last_error = error
        where = f"the backend {backend!r}" if backend else "the backend of the app"
        outage.failed(f"moving jobs from the outbox {self.name!r} to {where}", error, self._logger)

    def _log_refused(self, refused: list[tuple[OutboxEntry, Exception]]) -> None:
        """One line for jobs that are refused for the first time; the list of the outbox shows the later tries."""
        first = [item for item in refused if item[0].tries == 0]
        for entry, error in first[:1]:
            logger.warning(
                "%d jobs of the outbox %r were refused and are tried again later, the first is %s: %s; "
                "`tenure outbox list` shows them",
                len(first), self.name, entry.message.id, _shown(error),
                exc_info=None if isinstance(error, TenureError) else error,
            )  # fmt: skip


def _shown(error: Exception) -> str:
    return str(error) if isinstance(error, TenureError) else f"{type(error).__qualname__}: {error}"
