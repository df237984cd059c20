"""Opens `sqlite:///path`: three slashes for a relative path, four for an absolute one."""

import sqlite3
from pathlib import Path
from urllib.parse import SplitResult

from tenure.backends.parts import DatabaseFile
from tenure.backends.sql.backend import SqlBackend, migrated
from tenure.backends.sql.sqlite.database import Database
from tenure.backends.sql.sqlite.dialect import COMPOUNDS, SqliteDialect
from tenure.backends.url import options, sqlite_file
from tenure.clock import Clock
from tenure.errors import BackendUnavailable


def open_url(parts: SplitResult, clock: Clock) -> SqlBackend:
    """The backend on this file; creates and migrates the database when needed."""
    path, chosen = _file_and_options(parts)
    is_ours = chosen.get("journal", "wal") == "wal"
    dialect = SqliteDialect(Database(path, COMPOUNDS, chosen.get("synchronous", "full"), is_ours), clock)
    return migrated(SqlBackend(dialect, file=DatabaseFile(path, sqlite3.sqlite_version_info)))


def open_outbox(parts: SplitResult, clock: Clock) -> SqliteDialect:
    """The database of an application; the file must exist, and its journal mode stays."""
    path, chosen = _file_and_options(parts)
    if not path.exists():
        raise BackendUnavailable(f"there is no database at {str(path)!r}; check the path in the setting outboxes")
    return SqliteDialect(Database(path, COMPOUNDS, chosen.get("synchronous", "full"), is_ours=False), clock)


def _file_and_options(parts: SplitResult) -> tuple[Path, dict[str, str]]:
    chosen = options(parts, known={"synchronous": ("full", "normal", "extra"), "journal": ("wal", "keep")})
    path = sqlite_file(parts)
    if not path.parent.is_dir():
        raise BackendUnavailable(f"the folder {str(path.parent)!r} for the database does not exist; create it first")
    return path, chosen
