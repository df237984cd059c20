"""How processes that settle jobs tell the processes that wait for their ends, on PostgreSQL (docs/adr/0032).

A process that waits holds a shared advisory lock and listens. A process that settles tries to take that lock alone, in
the statement that notifies: if it gets the lock, no process waits, and it asks again a second later. So a fleet without
waits pays for one short statement a second. A process that waits polls until every other one must have asked, and for
the interval of the notifications after each of them.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg

from tenure.backends.ends import EndWait, Wakeup, poll_for_ends
from tenure.backends.sql.connections import Connections
from tenure.backends.sql.postgresql.connection import (
    PostgresConnection,
    PostgresExecutor,
    PostgresServer,
    close_quietly,
)
from tenure.errors import BackendError

logger = logging.getLogger(__name__)

_LOCK = "hashtext('tenure'), 1"
NOTIFY_ENDS = f"SELECT pg_notify('tenure_ends', '') WHERE NOT pg_try_advisory_xact_lock({_LOCK})"
_REGISTER = f"SELECT pg_advisory_lock_shared({_LOCK})"
_UNREGISTER = f"SELECT pg_advisory_unlock_shared({_LOCK})"
NOTIFY_INTERVAL = 0.01  # as for new jobs, see `notifications`
CHECK_SECONDS = 1.0  # between two tries to find a process that waits
_POLL_AFTER_NEWS_SECONDS = 0.002
_POLL_WHILE_NEW_SECONDS = 0.004
_NEW_SECONDS = CHECK_SECONDS + 0.2  # the statement takes a moment


class PostgresEndNotifier:
    """Notifies of ends, at most once an interval; a notification that fails is left out."""

    def __init__(self, executor: PostgresExecutor) -> None:
        self._executor = executor
        self._next = 0.0

    def notify(self) -> None:
        """Jobs were settled, cancelled or deleted, and this is committed."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + NOTIFY_INTERVAL  # other threads do not notify meanwhile
        try:
            found, _ = self._executor.run(lambda rows: rows(NOTIFY_ENDS, {}), again=False)
        except BackendError:
            logger.debug("a notification of ended jobs was not sent", exc_info=True)
        else:
            self._next = now + (NOTIFY_INTERVAL if found else CHECK_SECONDS)


class PostgresEndListener:
    """The connection on which a process listens while its callers wait for jobs."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._connections: Connections[PostgresConnection] = Connections(
            server.connect, lambda connection: close_quietly(connection.close)
        )

    @contextmanager
    def watch(self, wakeup: Wakeup) -> Iterator[EndWait]:
        connection = self._connections.take()
        if self._server.pooled:  # it would not forward notifications
            self._connections.give(connection)
            yield partial(poll_for_ends, wakeup)
            return
        try:
            connection.execute(_REGISTER)
            connection.execute("LISTEN tenure_ends")
            yield _Waiting(connection, wakeup).wait
            connection.execute("UNLISTEN tenure_ends")
            connection.execute(_UNREGISTER)
        except psycopg.Error as error:
            self._connections.drop(connection)
            raise self._server.unavailable(error) from error
        except BaseException:
            close_quietly(connection.close)
            raise
        self._connections.give(connection)

    def close(self) -> None:
        self._connections.close()


class _Waiting:
    """The caller asks about its jobs each time `wait` returns True.

    Whether it must poll goes by the time of its last question: on a busy machine the thread may be late, and an end
    without a notification may lie between that question and now.
    """

    def __init__(self, connection: PostgresConnection, wakeup: Wakeup) -> None:
        self._connection = connection
        self._wakeup = wakeup
        self._begun = self._asked = time.monotonic()
        self._last_news = 0.0

    def wait(self, seconds: float, _: float) -> bool:
        if self._asked - self._last_news < NOTIFY_INTERVAL + _POLL_AFTER_NEWS_SECONDS:
            seconds = min(seconds, _POLL_AFTER_NEWS_SECONDS)
        elif self._asked - self._begun < _NEW_SECONDS:
            seconds = min(seconds, _POLL_WHILE_NEW_SECONDS)
        has_news = self._wakeup.wait(seconds, self._connection.fileno())
        if has_news:
            self._asked = time.monotonic()
            if list(self._connection.notifies(timeout=0)):
                self._last_news = self._asked
        return has_news
