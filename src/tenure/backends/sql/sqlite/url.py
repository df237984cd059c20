"""Opens `sqlite:///path`: three slashes for a relative path, four for an absolute one."""

import sqlite3
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
    chosen = options(parts, known={"synchronous": ("full", "normal", "extra")})
    path = sqlite_file(parts)
    if not path.parent.is_dir():
        raise BackendUnavailable(f"the folder {str(path.parent)!r} for the database does not exist; create it first")
    dialect = SqliteDialect(Database(path, COMPOUNDS, chosen.get("synchronous", "full")), clock)
    return migrated(SqlBackend(dialect, file=DatabaseFile(path, sqlite3.sqlite_version_info)))
