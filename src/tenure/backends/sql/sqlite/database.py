"""Database: two SQLite connections, shared by the threads of a process: one writes, one reads, each under its lock.

A thread that waits for another writer holds the lock of the connection that writes. Other threads read meanwhile: the
other writer may be an application in this process, which has to read before it commits.

It uses the write-ahead log, full durability unless the URL asks otherwise, and one checkpoint at a time: SQLite before
3.51.3 may corrupt a file when several connections checkpoint. So automatic checkpoints are off, and the process that
holds the write lock runs them.

sqlite3 releases the GIL once a step, and taking it back from a busy thread costs up to a switch interval. So every
statement of the hot path is a single step: a batch goes in as one JSON text and comes back as one row, and several
statements are combined into one (`CompoundStatement`).
"""

import fcntl
import logging
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from tenure.backends.sql.dialect import Rows
from tenure.backends.sql.sqlite.compound import CompoundStatement
from tenure.backends.sql.sqlite.stopped_holder import continue_stopped_holder
from tenure.definition.payload import plain_text
from tenure.errors import BackendUnavailable, Unstorable

logger = logging.getLogger(__name__)

BEGIN = "BEGIN IMMEDIATE"
_READ_SCHEMA = "SELECT 1 FROM sqlite_schema LIMIT 1"
_LOCK_TIMEOUT = 30.0
_OLDEST_SQLITE = (3, 38, 0)  # the first with ->>
# SQLite writes a log of about 4 MB over and over: appending to a growing log doubles the time of a commit,
# because the file system must then record its new size as well (290 against 150 µs, docs/adr/0007).
_LOG_PAGES = 1000
_LOCK_POLL_SECONDS = 0.0003  # a write transaction takes 0.3 to 5 ms
_STOPPED_SECONDS = 1.0  # the longest write transaction of a batch takes a tenth of this
_encode = msgspec.json.Encoder(enc_hook=plain_text).encode  # an id may be the handle of a job


class Database:
    """A connection never crosses a fork: a child process opens its own at the first use."""

    def __init__(
        self, path: Path, compounds: Sequence[CompoundStatement], synchronous: str = "full", is_ours: bool = True
    ) -> None:
        """The file of an application is not ours: its journal mode stays, and its own connections checkpoint."""
        self.path = path
        self._is_ours = is_ours
        self._compounds = compounds
        self.log = path.with_name(f"{path.name}-wal")
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._read_lock = threading.Lock()  # a thread that holds it never waits for the other lock
        self._pid = self._reader_pid = 0
        self._checkpoint_after = 64
        self._writes = self._checkpoint_after  # also after the first write: a producer may end after it
        # SQLite learns of new tables when it compiles a statement, but not when it compiles a trigger.
        self._is_schema_read = False
        self._connection: sqlite3.Connection
        self._reader: sqlite3.Connection
        self._write_lock: WriteLock
        _databases.add(self)
        try:
            self._connect()
        except (sqlite3.Error, OSError) as error:
            self.explain(error)
            raise

    def read(self, statement: str, parameters: Any = ()) -> list[Any]:
        """Every row of a query, of what is committed."""
        with self._read_lock:
            try:
                return self._own_reader().execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                self.explain(error)
                raise

    def transaction(self, is_durable: bool = True) -> "WriteTurn":
        """A write transaction; one that is not durable may be lost when the host stops."""
        return WriteTurn(self, is_durable, in_transaction=True)

    def write_turn(self) -> "WriteTurn":
        """Only the write lock: each statement commits itself, unless one begins a transaction.

        Only jobs that a caller puts in a transaction of its own are written without the write lock.
        """
        return WriteTurn(self, is_durable=True, in_transaction=False)

    def run_alone(self, statement: str, parameters: Any) -> bool:
        """Run one statement that commits itself; False when the statement raised ABORT and so changed nothing."""
        connection = self.begin(is_durable=True, in_transaction=False)
        keep = False
        try:
            keep = was_applied(connection, statement, parameters)
        except sqlite3.Error as error:
            self.explain(error)
        finally:
            self.end(keep)
        return keep

    def begin(self, is_durable: bool, in_transaction: bool) -> sqlite3.Connection:
        """Wait for the write lock, then for SQLite; the caller must call `end`."""
        self._lock.acquire()
        try:
            connection = self._own_connection()
            self._write_lock.acquire()
            try:
                self._set_durability(connection, is_durable)
                if not self._is_schema_read:
                    connection.execute(_READ_SCHEMA).fetchall()
                    self._is_schema_read = True
                if in_transaction:
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
        """Commit or roll back, and release the write lock."""
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
                if connection.in_transaction:  # after some errors, such as a full disk, SQLite has rolled back
                    connection.execute("ROLLBACK")
            finally:
                self._write_lock.release()
                self._lock.release()

    def close(self) -> None:
        with self._lock, self._read_lock:
            self._close()

    def close_for_fork(self) -> None:
        """Close; no thread can open it again before `reopen_after_fork`."""
        self._lock.acquire()
        self._read_lock.acquire()
        self._close()

    def reopen_after_fork(self) -> None:
        self._read_lock.release()
        self._lock.release()

    def _close(self) -> None:
        if self._reader_pid == os.getpid():
            self._reader.close()
        if self._pid == os.getpid():
            self._connection.close()
            self._write_lock.close()
        self._pid = self._reader_pid = 0

    def _own_connection(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            self._connect()
        return self._connection

    def _own_reader(self) -> sqlite3.Connection:
        if self._reader_pid != os.getpid():
            self._reader = self._open()
            self._reader.execute("PRAGMA query_only = ON")
            self._reader_pid = os.getpid()
        return self._reader

    def _open(self) -> sqlite3.Connection:
        _create_for_owner(self.path)
        connection = sqlite3.connect(
            self.path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        connection.text_factory = _text
        return connection

    def _connect(self) -> None:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            oldest = ".".join(map(str, _OLDEST_SQLITE))
            raise BackendUnavailable(f"SQLite {sqlite3.sqlite_version} is too old: Tenure needs {oldest} or newer")
        self._connection = self._open()
        with ExitStack() as undo:
            undo.callback(self._connection.close)
            mode = self._connection.execute("PRAGMA journal_mode").fetchone()
            self._write_lock = WriteLock(self.path, _LOCK_TIMEOUT)
            undo.callback(self._write_lock.close)
            if self._is_ours and mode != ("wal",):
                self._use_write_ahead_log()
            self._prepare_connection()
            undo.pop_all()
        self._pid = os.getpid()
        self._is_durable = True
        self._is_schema_read = False

    def _prepare_connection(self) -> None:
        for pragma in (
            f"synchronous = {self._synchronous}",
            "wal_autocheckpoint = 0",
            "temp_store = MEMORY",
            "secure_delete = OFF",
        ):
            self._connection.execute(f"PRAGMA {pragma}")
        for statement in self._compounds:
            self._connection.execute(statement.view)
            self._connection.execute(statement.trigger)

    def _use_write_ahead_log(self) -> None:
        """Under the write lock: of two connections that change the mode at once, SQLite refuses one without waiting."""
        self._write_lock.acquire()
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
        finally:
            self._write_lock.release()

    def _set_durability(self, connection: sqlite3.Connection, is_durable: bool) -> None:
        if is_durable != self._is_durable:
            connection.execute(f"PRAGMA synchronous = {self._synchronous if is_durable else 'normal'}")
            self._is_durable = is_durable

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file every `_checkpoint_after` writes, a number adapted to the length of the log."""
        self._writes += 1
        if not self._is_ours or self._writes < self._checkpoint_after:
            return
        self._writes = 0
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages > _LOG_PAGES * 2:
            self._checkpoint_after = max(2, self._checkpoint_after // 2)
        elif pages < _LOG_PAGES // 2:
            self._checkpoint_after = min(1024, self._checkpoint_after * 2)

    def explain(self, error: BaseException) -> None:
        """Raise an error of SQLite as an error of Tenure that names the file."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise BackendUnavailable(f"the database {str(self.path)!r} is closed") from error
        if isinstance(error, (sqlite3.DataError, sqlite3.IntegrityError, OverflowError, UnicodeEncodeError)):
            raise Unstorable(f"the database {str(self.path)!r} cannot store a value: {error}") from error
        if isinstance(error, sqlite3.OperationalError) and str(error).startswith("no such"):
            self._is_schema_read = False
        if isinstance(error, (sqlite3.Error, OSError)):
            raise BackendUnavailable(f"the database {str(self.path)!r} cannot be used: {error}") from error


def _create_for_owner(path: Path) -> None:
    """Create a missing file with access for its owner alone; SQLite gives its log and their index the same mode.

    A file that exists must not be opened here: closing it would end the locks of this process on it.
    """
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


class WriteTurn:
    """A `with` block that holds the write lock; entering it returns the connection to write on."""

    def __init__(self, database: Database, is_durable: bool, in_transaction: bool) -> None:
        self._database = database
        self._is_durable = is_durable
        self._in_transaction = in_transaction

    def __enter__(self) -> sqlite3.Connection:
        return self._database.begin(self._is_durable, self._in_transaction)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._database.end(keep=error is None)
        if error is not None:
            self._database.explain(error)


class WriteLock:
    """Gives the write slot of a SQLite file to processes in turn; the caller serialises the threads of its process.

    SQLite waits by sleeping and trying again, so a busy process can starve another one for seconds. Here a process
    first takes the gate, then waits for the slot while it holds the gate: a process that just released the slot must
    queue behind it. The kernel frees both when a process dies. A process that is stopped while it holds one of them
    is continued by those that wait (`continue_stopped_holder`).
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._gate = self._open("gate")
        self._slot = self._open("slot")

    def acquire(self) -> None:
        give_up = time.monotonic() + self._timeout
        self._take(self._gate, give_up)
        try:
            self._take(self._slot, give_up)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def release(self) -> None:
        fcntl.flock(self._slot, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._gate)
        os.close(self._slot)

    def _take(self, descriptor: int, give_up: float) -> None:
        look_at = time.monotonic() + _STOPPED_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = time.monotonic()
                if now > look_at:
                    continue_stopped_holder(descriptor, self._path)
                    look_at = now + _STOPPED_SECONDS
                if now > give_up:
                    raise BackendUnavailable(
                        f"another process has been writing to {str(self._path)!r} for {self._timeout:g} s; "
                        "find it with fuser or lsof: it may be stopped or stuck"
                    ) from None
                time.sleep(_LOCK_POLL_SECONDS)
            else:
                return

    def _open(self, role: str) -> int:
        return os.open(f"{self._path}-{role}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _text(stored: bytes) -> str:
    """Text that another program stored may not be UTF-8; it must not hide the other rows of its page."""
    return stored.decode("utf-8", "replace")


def was_applied(connection: Any, statement: str, parameters: Any) -> bool:
    """Run a statement; False when it raised ABORT and so changed nothing."""
    try:
        connection.execute(statement, parameters)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_TRIGGER:
            raise
        return False
    return True


def json_text(value: Any) -> str:
    return _encode(value).decode()


def rows_on(connection: Any) -> Rows:
    """Runs neutral statements on this connection."""
    return lambda statement, parameters: connection.execute(translated(statement), bound(parameters)).fetchall()


@lru_cache
def translated(statement: str) -> str:
    """A neutral statement in SQLite's notation; the file has one writer, so rows need no locks."""
    unlocked = re.sub(r" FOR UPDATE( SKIP LOCKED)?", "", statement)
    return re.sub(r"IN :(\w+)", r"IN (SELECT value FROM json_each(:\1))", unlocked)


def bound(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_text(value) if isinstance(value, list) else value for name, value in parameters.items()}


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_closed_for_fork: list[Database] = []


def _before_fork() -> None:
    """Close every database: SQLite records its locks in memory, and a fork copies that record.

    The child would believe that it holds its parent's locks, and write to a log that its parent deletes on closing.
    """
    _closed_for_fork.extend(_databases)
    for database in _closed_for_fork:
        database.close_for_fork()


def _after_fork() -> None:
    while _closed_for_fork:
        _closed_for_fork.pop().reopen_after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
