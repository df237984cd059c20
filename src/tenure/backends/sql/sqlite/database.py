"""Database: one SQLite connection, shared by the roles of a process under one lock.

Write-ahead log, full durability unless asked otherwise, and one checkpointer at a time:
SQLite before 3.51.3 may corrupt a file when several connections checkpoint, so automatic
checkpoints are off and whoever holds the write lock does them.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenure.backends.sql.sqlite.write_lock import WriteLock
from tenure.errors import BackendUnavailable

_PATIENCE = 30.0
_CHECKPOINT_BYTES = 16 * 1024 * 1024


class Database:
    """Opened on first use in each process: a connection never crosses a fork."""

    def __init__(self, path: Path, synchronous: str = "full") -> None:
        self.path = path
        self.log = path.with_name(f"{path.name}-wal")
        self._synchronous = synchronous
        self._lock = threading.RLock()
        self._pid = 0
        self._writes = 0
        self._connection: sqlite3.Connection
        self._write_lock: WriteLock
        with self._errors():
            self._connect()

    def read(self, statement: str, parameters: Any = ()) -> list[Any]:
        """Every row of a query."""
        with self._lock, self._errors():
            return self._here().execute(statement, parameters).fetchall()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that either happens whole or not at all."""
        with self._lock, self._errors():
            connection = self._here()
            self._write_lock.acquire()
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
                self._checkpoint(connection)
            finally:
                self._write_lock.release()

    def close(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                self._connection.close()
                self._write_lock.close()
            self._pid = 0

    def _here(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            self._connect()
        return self._connection

    def _connect(self) -> None:
        # A connection inherited over a fork is left alone: closing it here would disturb its owner's locks.
        self._connection = sqlite3.connect(
            self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {self._synchronous}",
            "wal_autocheckpoint = 0",
            "foreign_keys = OFF",
        ):
            self._connection.execute(f"PRAGMA {pragma}")
        self._write_lock = WriteLock(self.path, _PATIENCE)
        self._pid = os.getpid()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        self._writes += 1
        if self._writes % 16 == 0 and self.log.stat().st_size > _CHECKPOINT_BYTES:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise BackendUnavailable(f"the database {str(self.path)!r} is closed") from error
        except (sqlite3.OperationalError, sqlite3.DatabaseError, OSError) as error:
            raise BackendUnavailable(f"the database {str(self.path)!r} cannot be used: {error}") from error
