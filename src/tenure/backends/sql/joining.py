"""Joining: the driver's own connection inside whatever a caller holds, by what it can do and not by its type.

Raw connections of psycopg, PyMySQL, mysqlclient and sqlite3, a Connection or Session of SQLAlchemy, and a
connection of Django are understood. The transaction stays the caller's: nothing here begins or ends it for good.
"""

from typing import Any

from tenure.errors import BackendError

_DRIVERS = {
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "sqlite3": "sqlite",
}


def joined(connection: Any, dialect: str, place: str) -> Any:
    """The driver's connection, if it is to a database of this kind."""
    raw = _unwrapped(connection)
    kind = kind_of(raw)
    if kind != dialect:
        what = f"a {kind} connection" if kind else f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise BackendError(
            f"{what} cannot be joined by a job on the {dialect} database {place!r}: both must be in one database "
            "to be committed together; give a connection to it (psycopg, PyMySQL, mysqlclient, sqlite3, SQLAlchemy "
            "or Django, not an async one), or leave `connection` out"
        )
    return raw


def kind_of(raw: Any) -> str | None:
    """The kind of database that a driver's connection speaks to."""
    names = [parent.__module__.partition(".")[0] for parent in type(raw).__mro__]
    if any(parent.__name__.startswith("Async") for parent in type(raw).__mro__) or not hasattr(raw, "cursor"):
        return None
    return next((_DRIVERS[name] for name in names if name in _DRIVERS), None)


def _unwrapped(connection: Any) -> Any:
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        connection = connection.connection()  # SQLAlchemy: a Session
    if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy: a Connection, which begins when it is first used
        if not connection.in_transaction():
            connection.begin()
        return connection.connection.driver_connection
    if hasattr(connection, "ensure_connection"):  # Django
        connection.ensure_connection()
        return connection.connection
    return connection


def first(row: Any) -> Any:
    """The first column of a row, whatever shape the caller's connection gives to rows."""
    return next(iter(row.values())) if hasattr(row, "values") else row[0]
