"""Finds the driver connection inside the connection or session that a caller passes.

It accepts connections of psycopg, PyMySQL, mysqlclient and sqlite3, a Connection or Session of SQLAlchemy, and a
connection of Django. The transaction belongs to the caller: nothing here commits or rolls back.
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


def driver_connection(connection: Any, dialect: str, location: str) -> Any:
    """The driver connection; refuses a connection to another kind of database."""
    raw = _unwrapped(connection)
    kind = kind_of(raw)
    if kind != dialect:
        what = f"a {kind} connection" if kind else f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise BackendError(
            f"{what} cannot be used for a job on the {dialect} database {location!r}: both must be in one database "
            "to be committed together; give a connection to it (psycopg, PyMySQL, mysqlclient, sqlite3, SQLAlchemy "
            "or Django, not an async one), or leave `connection` out"
        )
    return raw


def kind_of(raw: Any) -> str | None:
    """The kind of database that a driver connection belongs to."""
    names = [parent.__module__.partition(".")[0] for parent in type(raw).__mro__]
    if any(parent.__name__.startswith("Async") for parent in type(raw).__mro__) or not hasattr(raw, "cursor"):
        return None
    return next((_DRIVERS[name] for name in names if name in _DRIVERS), None)


def _unwrapped(connection: Any) -> Any:
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        connection = connection.connection()  # SQLAlchemy: a Session
    if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy: a Connection; it begins its transaction at the first use
        if not connection.in_transaction():
            connection.begin()
        return connection.connection.driver_connection
    if hasattr(connection, "ensure_connection"):  # Django
        connection.ensure_connection()
        return connection.connection
    return connection


def first_column(row: Any) -> Any:
    """The first column of a row, whether the caller's connection returns tuples or dictionaries."""
    return next(iter(row.values())) if hasattr(row, "values") else row[0]
