"""Connections: a pool of idle connections to a database server, and what both servers need around it.

A caller takes a connection for one verb and gives it back, so there are as many as there are threads at work at the
same time. A connection never crosses a fork: a child process does not touch what its parent opened.
`driver_connection` finds the driver connection inside what a caller passes: a connection of psycopg, PyMySQL,
mysqlclient or sqlite3, a Connection or Session of SQLAlchemy, or a connection of Django. That transaction belongs to
the caller: nothing here commits it or rolls it back.
"""

import os
import random
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tenure.backends.sql.async_connections import is_async
from tenure.errors import BackendError, BackendUnavailable, UnknownBackend

C = TypeVar("C")
# A client that falls silent inside a transaction keeps its row locks. The server ends its session after this time, well
# within the time in which the other workers must renew their leases.
IDLE_TRANSACTION_SECONDS = 5.0
GUARD_LOCK_SECONDS = 2.0  # to wait for the row of a guard
# An idle worker cost a MariaDB server 0.9 to 2.5 % of a core with 40 polls a second, and 0.3 to 0.7 % with 10.
POLL_SECONDS = 0.025
IDLE_POLL_SECONDS = 0.1
_POLLS_IN_IDLE_TIME = 400  # 25 ms until 10 s after the last job, 100 ms from 40 s on
_FIRST_POLL_SECONDS = 0.004  # in a stream of jobs the next one comes soon
_POLLS_IN_BUSY_TIME = 4  # 4 ms until 16 ms after the last job, 25 ms from 100 ms on


class Connections(Generic[C]):
    """`open` and `close` are the driver's."""

    def __init__(self, open: Callable[[], C], close: Callable[[C], None]) -> None:
        self._open = open
        self._close = close
        self._pid = os.getpid()
        self._idle: list[C] = []
        self._inherited: list[C] = []
        self._closed = False

    def take(self) -> C:
        """An idle connection, or a new one."""
        if self._closed:
            raise BackendUnavailable("the backend is closed")
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._inherited += self._idle  # referenced, so that Python does not close what the parent still uses
            self._idle = []
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def give(self, connection: C) -> None:
        """Give a working connection back."""
        if self._closed:
            self._close(connection)
        else:
            self._idle.append(connection)

    def drop(self, connection: C) -> None:
        """Close a broken connection, and the idle ones too: most likely they broke for the same reason."""
        self._close(connection)
        self._empty()

    def close(self) -> None:
        self._closed = True
        if self._pid == os.getpid():
            self._empty()

    def _empty(self) -> None:
        while self._idle:
            self._close(self._idle.pop())


def back_off(tries: int) -> None:
    """Sleep for a short random time, longer after more tries, so that transactions that collided do not meet again."""
    time.sleep(random.uniform(0, 0.002 * 2**tries))  # noqa: S311 - only spreads the tries


def poll(seconds: float, last_work: float) -> bool:
    """A wait for work where the server does not report new work; it grows with the time since the last job."""
    idle = time.monotonic() - last_work
    busy_pause = max(_FIRST_POLL_SECONDS, min(POLL_SECONDS, idle / _POLLS_IN_BUSY_TIME))
    idle_pause = min(IDLE_POLL_SECONDS, idle / _POLLS_IN_IDLE_TIME)
    time.sleep(min(seconds, max(busy_pause, idle_pause)))
    return False


def timeout_option(text: str) -> float:
    """The option `timeout` of a server's URL: how many seconds the server may take to answer."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 3600:
        raise UnknownBackend(f"option timeout={text!r} must be a number of seconds from 1 to 3600")
    return value


_DRIVERS = {
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "sqlite3": "sqlite",
}


def driver_connection(connection: Any, dialect: str, location: str) -> Any:
    """The driver connection; refuses a connection to another kind of database."""
    raw, kind = found_connection(connection)
    if kind != dialect:
        what = f"a {kind} connection" if kind else f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise BackendError(
            f"{what} cannot be used for a job on the {dialect} database {location!r}: both must be in one database "
            "to be committed together; give a connection to it (psycopg, PyMySQL, mysqlclient, sqlite3, SQLAlchemy "
            "or Django), or leave `connection` out"
        )
    return raw


def found_connection(connection: Any) -> tuple[Any, str | None]:
    """The driver connection and the kind of its database, None if it is unknown; refuses an async connection."""
    if is_async(connection):
        raise BackendError(
            f"{type(connection).__module__}.{type(connection).__qualname__} is an async connection, and enqueue does "
            "not await it; write `await function.using(connection=connection).aenqueue(...)`, or "
            "`await app.aio.enqueue(job, connection=connection)`"
        )
    raw = _unwrapped(connection)
    return raw, kind_of(raw)


def kind_of(raw: Any) -> str | None:
    """The kind of database that a driver connection belongs to."""
    names = [parent.__module__.partition(".")[0] for parent in type(raw).__mro__]
    if not hasattr(raw, "cursor"):
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
