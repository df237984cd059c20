"""Sessions: work on a connection, tried again where that is right."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import pymysql

from tenure.backends.sql.connections import Connections, give_way
from tenure.backends.sql.dialect import Rows
from tenure.backends.sql.mysql import statements as sql
from tenure.backends.sql.mysql.server import Connection, Server, is_lost, said, was_rolled_back
from tenure.backends.sql.mysql.session import Session
from tenure.errors import BackendError

T = TypeVar("T")
_TRIES = 8
_LOCK_TRIES = 120  # of five seconds


class Sessions:
    """One for each role that is at work."""

    def __init__(self, server: Server, now: Callable[[], str]) -> None:
        self._server = server
        self._now = now
        self._connections: Connections[Connection] = Connections(server.connect, _close)

    def ask(self, work: Callable[[Session], T]) -> T:
        return self._try(work)[0]

    def transaction(self, work: Callable[[Session], T], again: bool = True) -> T:
        """`work` begins a transaction with its first packet; it is committed here."""
        return self._try(partial(_whole, work), again)[0]

    def tried_transaction(self, work: Callable[[Session], T]) -> tuple[T, bool]:
        """The same, and whether an earlier try may have happened unseen."""
        return self._try(partial(_whole, work))

    @contextmanager
    def alone(self) -> Iterator[Rows]:
        """Neutral statements that nobody else runs at the same time."""
        connection = self._connections.take()
        session = Session(connection, self._now)
        try:
            if not any(session.send(sql.LOCK)[0][0][0] for _ in range(_LOCK_TRIES)):
                raise BackendError(f"the database {self._server.place!r} has been migrating for ten minutes")
            yield _with_collation(session)
            session.send(sql.UNLOCK)
        except pymysql.Error as error:
            self._connections.drop(connection)
            raise self._server.unavailable(error) from error
        self._connections.give(connection)

    def close(self) -> None:
        self._connections.close()

    def _try(self, work: Callable[[Session], T], again: bool = True) -> tuple[T, bool]:
        """What the server rolled back is tried again; so is once, where it may happen `again`, what was cut off."""
        was_cut = False
        for attempt in range(1, _TRIES + 1):
            connection = self._connections.take()
            try:
                answer = work(Session(connection, self._now))
            except pymysql.Error as error:
                lost = is_lost(error) or not _rolled_back(connection)
                (self._connections.drop if lost else self._connections.give)(connection)
                if (lost and (was_cut or not again)) or attempt == _TRIES:
                    raise self._server.unavailable(error) from error
                if not (lost or was_rolled_back(error)):
                    raise self._refusal(error) from error
                was_cut = was_cut or lost
                if not lost:
                    give_way(attempt)
            except BaseException:
                self._connections.drop(connection)
                raise
            else:
                self._connections.give(connection)
                return answer, was_cut
        raise AssertionError  # the last try returned or raised

    def _refusal(self, error: pymysql.Error) -> BackendError:
        if isinstance(error, pymysql.OperationalError):
            return self._server.unavailable(error)
        return BackendError(f"MySQL refused a statement on {self._server.place!r}: {said(error)}")


def _with_collation(session: Session) -> Rows:
    """Statements whose tables tell 'a' from 'a ', where the server can; MySQL can from 8.0.17 on."""
    found = session.send(sql.COLLATIONS)[0]
    collation = str(found[0][0]) if found else sql.COLLATION
    return lambda statement, parameters: session.neutral(statement.replace(sql.COLLATION, collation), parameters)


def _whole(work: Callable[[Session], T], session: Session) -> T:
    answer = work(session)
    if session.in_transaction:  # the last packet may have ended it already, and spared a round trip
        session.send(sql.COMMIT)
    return answer


def _rolled_back(connection: Connection) -> bool:
    try:
        connection.rollback()
    except pymysql.Error:
        return False
    return True


def _close(connection: Connection) -> None:
    with suppress(pymysql.Error):  # it may be closed already
        connection.close()
