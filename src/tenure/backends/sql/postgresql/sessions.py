"""Sessions: statements on a connection, and again where the server rolled them back or the line was cut."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

import psycopg

from tenure.backends.sql.connections import Connections, give_way
from tenure.backends.sql.dialect import Rows
from tenure.backends.sql.postgresql import statements as sql
from tenure.backends.sql.postgresql.server import Connection, Server, quietly
from tenure.errors import BackendError

T = TypeVar("T")
_TRIES = 8
_MIGRATION_PATIENCE = 600.0


class Sessions:
    """As many connections as there are callers at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connections: Connections[Connection] = Connections(server.connect, lambda one: quietly(one.close))

    def run(self, work: Callable[[Rows], T], again: bool = True) -> tuple[T, bool]:
        """The answer, each statement for itself, and whether an earlier try may have happened unseen."""
        return self._try(lambda connection: work(partial(rows_on, connection)), again)

    def whole(self, work: Callable[[Rows], T]) -> T:
        """The answer of statements that happen together or not at all."""

        def transaction(connection: Connection) -> T:
            with connection.transaction():
                return work(partial(rows_on, connection))

        return self._try(transaction, again=False)[0]

    @contextmanager
    def migrating(self) -> Iterator[Rows]:
        connection = self._connections.take()
        patience, connection.patience = connection.patience, _MIGRATION_PATIENCE
        try:
            with connection.transaction():
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("SET LOCAL lock_timeout = 0")
                connection.execute(sql.LOCK)
                yield partial(rows_on, connection)
        except psycopg.Error as error:
            self._connections.drop(connection)
            raise self._server.unavailable(error) from error
        connection.patience = patience
        self._connections.give(connection)

    def close(self) -> None:
        self._connections.close()

    def _try(self, work: Callable[[Connection], T], again: bool = True) -> tuple[T, bool]:
        """What the server rolled back is tried again; so is once, where it may happen `again`, what was cut off."""
        was_cut = False
        for attempt in range(1, _TRIES + 1):
            connection = self._connections.take()
            try:
                answer = work(connection)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
                self._connections.give(connection)
                if attempt == _TRIES:
                    raise self._server.unavailable(error) from error
                give_way(attempt)
            except psycopg.Error as error:
                if not connection.closed:
                    self._connections.give(connection)
                    raise self._refusal(error) from error
                self._connections.drop(connection)
                if was_cut or not again:
                    raise self._server.unavailable(error) from error
                was_cut = True
            except BaseException:  # of whoever asked: nothing of it is kept
                quietly(connection.close)
                raise
            else:
                self._connections.give(connection)
                return answer, was_cut
        raise AssertionError  # the last try returned or raised

    def _refusal(self, error: psycopg.Error) -> BackendError:
        if isinstance(error, psycopg.OperationalError):
            return self._server.unavailable(error)
        return BackendError(f"PostgreSQL refused a statement on {self._server.place!r}: {error}")


def rows_on(connection: Connection, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
    cursor = connection.execute(translated(statement), parameters or None)
    return cursor.fetchall() if cursor.description else []


@lru_cache
def translated(statement: str) -> str:
    """A neutral statement in PostgreSQL's words; one that is in them already stays as it is."""
    listed = re.sub(r"IN :(\w+)", r"= ANY(%(\1)s)", statement)
    return re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", listed)
