"""Database: one SQLite connection, shared by the roles of a process under one lock.

Write-ahead log, full durability unless asked otherwise, and one checkpointer at a time:
SQLite before 3.51.3 may corrupt a file when several connections checkpoint, so automatic
checkpoints are off and whoever holds the write lock does them.
"""

import os
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import Any

from tenure.backends.sql.sqlite.statements import BEGIN, ONE_STEPS
from tenure.backends.sql.sqlite.write_lock import WriteLock
from tenure.errors import BackendUnavailable

_PATIENCE = 30.0
_OLDEST = (3, 38, 0)  # the first with ->>
# A log of about 4 MB is written over and over: appending to a growing one costs twice the time of a commit,
# because the file system must then record its new size as well (290 against 150 µs, docs/adr/0007).
_LOG_PAGES = 1000


class Database:
    """Opened on first use; a connection never crosses a fork."""

    def __init__(self, path: Path, synchronous: str = "full") -> None:
        self.path = path
        self.log = path.with_name(f"{path.name}-wal")
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._pid = 0
        self._checkpoint_after = 64
        self._writes = self._checkpoint_after  # the first write too: a producer may not live for a second one
        self._connection: sqlite3.Connection
        self._write_lock: WriteLock
        _databases.add(self)
        try:
            self._connect()
        except (sqlite3.Error, OSError) as error:
            self.explain(error)
            raise

    def read(self, statement: str, parameters: Any = ()) -> list[Any]:
        """Every row of a query."""
        with self._lock:
            try:
                return self._here().execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                self.explain(error)
                raise

    def write(self, is_durable: bool = True) -> "Turn":
        """A transaction that either happens whole or not at all; one that is not durable may go with the host."""
        return Turn(self, is_durable, is_whole=True)

    def turn(self) -> "Turn":
        """The write slot alone: each statement commits itself, unless one begins a transaction.

        Only jobs that join a transaction of somebody else's are written without the slot.
        """
        return Turn(self, is_durable=True, is_whole=False)

    def step(self, statement: str, parameters: Any) -> bool:
        """One statement that commits itself; false when it found what it does not provide for, and did nothing."""
        connection = self.begin(is_durable=True, is_whole=False)
        keep = False
        try:
            connection.execute(statement, parameters)
            keep = True
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_TRIGGER:
                self.explain(error)
        except sqlite3.Error as error:
            self.explain(error)
        finally:
            self.end(keep)
        return keep

    def begin(self, is_durable: bool, is_whole: bool) -> sqlite3.Connection:
        """Wait for the write slot, then for SQLite; whoever begins must end."""
        self._lock.acquire()
        try:
            connection = self._here()
            self._write_lock.acquire()
            try:
                self._sync(connection, is_durable)
                if is_whole:
                    connection.execute(BEGIN)
            except BaseException:
                self._write_lock.release()
                raise
        except BaseException as error:
            self._lock.release()
            self.explain(error)
            raise
        return connection

    def end(self, keep: bool) -> None:
        """Commit, or roll back, and give the slot to the next."""
        connection = self._connection
        try:
            if keep:
                if connection.in_transaction:
                    connection.execute("COMMIT")
                self._checkpoint(connection)
        except BaseException as error:
            self.explain(error)
            raise
        finally:
            try:
                if connection.in_transaction:  # some errors, such as a full disk, have rolled back already
                    connection.execute("ROLLBACK")
            finally:
                self._write_lock.release()
                self._lock.release()

    def close(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                self._connection.close()
                self._write_lock.close()
            self._pid = 0

    def rest(self) -> None:
        """Close until `wake`; meanwhile nobody else can open it."""
        self._lock.acquire()
        self.close()

    def wake(self) -> None:
        self._lock.release()

    def _here(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            self._connect()
        return self._connection

    def _connect(self) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise BackendUnavailable(f"SQLite {sqlite3.sqlite_version} is too old: Tenure needs {oldest} or newer")
        self._connection = sqlite3.connect(
            self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {self._synchronous}",
            "wal_autocheckpoint = 0",
            "temp_store = MEMORY",
            "secure_delete = OFF",
        ):
            self._connection.execute(f"PRAGMA {pragma}")
        for step in ONE_STEPS:
            self._connection.execute(step.view)
            self._connection.execute(step.trigger)
        self._write_lock = WriteLock(self.path, _PATIENCE)
        self._pid = os.getpid()
        self._syncs = True

    def _sync(self, connection: sqlite3.Connection, is_durable: bool) -> None:
        if is_durable != self._syncs:
            connection.execute(f"PRAGMA synchronous = {self._synchronous if is_durable else 'normal'}")
            self._syncs = is_durable

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Every so many writes, copy the log into the file; how many is learnt from how long the log was."""
        self._writes += 1
        if self._writes < self._checkpoint_after:
            return
        self._writes = 0
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages > _LOG_PAGES * 2:
            self._checkpoint_after = max(2, self._checkpoint_after // 2)
        elif pages < _LOG_PAGES // 2:
            self._checkpoint_after = min(1024, self._checkpoint_after * 2)

    def explain(self, error: BaseException) -> None:
        """Raise what SQLite says as an error of ours, with the file's name."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise BackendUnavailable(f"the database {str(self.path)!r} is closed") from error
        if isinstance(error, (sqlite3.Error, OSError)):
            raise BackendUnavailable(f"the database {str(self.path)!r} cannot be used: {error}") from error


class Turn:
    """The block of a `with`; entering gives the connection to write on."""

    def __init__(self, database: Database, is_durable: bool, is_whole: bool) -> None:
        self._database = database
        self._is_durable = is_durable
        self._is_whole = is_whole

    def __enter__(self) -> sqlite3.Connection:
        return self._database.begin(self._is_durable, self._is_whole)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._database.end(keep=error is None)
        if error is not None:
            self._database.explain(error)


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_resting: list[Database] = []


def _before_fork() -> None:
    """SQLite remembers its locks in memory, where a fork copies what only the parent holds in the kernel.

    A child would take the copies for its own, and go on writing to a log that its parent deletes on closing.
    """
    _resting.extend(_databases)
    for database in _resting:
        database.rest()


def _after_fork() -> None:
    while _resting:
        _resting.pop().wake()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
