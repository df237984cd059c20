"""How producers wake waiting workers on PostgreSQL: with NOTIFY and LISTEN, or workers poll.

A transaction that notifies holds a lock from before its commit is on disk until after it, so such commits wait for each
other. A notification is therefore sent after the commit, in a transaction of its own that writes nothing to disk, and
at most one for each queue in a short interval (docs/adr/0028). So a worker polls for that interval after each
notification and each job, and only then waits for the next notification.
"""

import logging
import select
import threading
import time
from collections.abc import Iterable, Sequence

import psycopg

from tenure.backends.records import Fact
from tenure.backends.sql.connections import Connections, poll
from tenure.backends.sql.dialect import Rows
from tenure.backends.sql.postgresql.connection import (
    PostgresConnection,
    PostgresExecutor,
    PostgresServer,
    close_quietly,
    text_array,
)
from tenure.errors import BackendError, BackendUnavailable

logger = logging.getLogger(__name__)

NOTIFY = "SELECT pg_notify('tenure', queue) FROM unnest(%(notify)s::text[]) AS queue"
NOTIFY_INTERVAL = 0.01  # 100 notifications a second cost the server 0.2 % of a core, and each waiting worker a query
_POLL_AFTER_NEWS_SECONDS = 0.002
IDLE_POLL_SECONDS = 0.5  # besides notifications, which may be late, or lost with their connection
_TRIAL_TIMEOUT = 5.0


class PostgresNotifier:
    """Notifies the workers that wait for a queue, at most once an interval; behind a pooler it does nothing."""

    def __init__(self, server: PostgresServer, executor: PostgresExecutor) -> None:
        self._server = server
        self._executor = executor
        self._notified: dict[str, float] = {}
        self._wakes = threading.local()  # its `queues` are those of the transaction of a thread

    def notify(self, queues: Iterable[str]) -> None:
        """Notify of what was committed; without the notification, workers find it a little later."""
        now = time.monotonic()
        due = [queue for queue in set(queues) if now - self._notified.get(queue, -1.0) >= NOTIFY_INTERVAL]
        if self._server.pooled or not due:
            return
        self._notified.update(dict.fromkeys(due, now))
        try:
            self._executor.run(lambda rows: rows(NOTIFY, {"notify": text_array(due)}), again=False)
        except BackendError:
            logger.debug("a notification was not sent", exc_info=True)

    def add(self, queues: Iterable[str]) -> None:
        """Notify of these queues when the transaction of this thread has ended."""
        vars(self._wakes).setdefault("queues", set()).update(queues)

    def notify_added(self) -> None:
        """The transaction of this thread has ended."""
        self.notify(vars(self._wakes).pop("queues", ()))


class PostgresListener:
    """The listening connections of a process."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._last_work = 0.0
        self._last_news = 0.0
        self._connections: Connections[PostgresConnection | None] = Connections(server.listen, _close)

    def had_work(self) -> None:
        self._last_work = self._last_news = time.monotonic()

    def wait(self, queues: Sequence[str], seconds: float) -> bool:
        """Wait for a notification of these queues or the next poll, at most this long; True when one came."""
        try:
            connection = self._connections.take()
        except BackendUnavailable:
            connection = None
        if connection is None:
            return poll(seconds, self._last_work)
        has_news = time.monotonic() - self._last_news < NOTIFY_INTERVAL + _POLL_AFTER_NEWS_SECONDS
        timeout = min(seconds, _POLL_AFTER_NEWS_SECONDS if has_news else IDLE_POLL_SECONDS)
        try:
            was_notified = _is_notified(connection, queues, timeout)
        except psycopg.Error:
            self._connections.drop(connection)
            return poll(seconds, self._last_work)
        self._connections.give(connection)
        if was_notified:
            self._last_news = time.monotonic()
        return was_notified

    def fact(self, rows: Rows) -> Fact:
        """How workers are woken; sends a notification to test whether a listener receives it."""
        connection = None if self._server.pooled else self._server.listen()
        if connection is None:
            return Fact("wake-ups", "workers poll every 25 ms, or 100 ms when idle: a pooler, or listen=off")
        try:
            rows(NOTIFY, {"notify": text_array([""])})
            received = list(connection.notifies(timeout=_TRIAL_TIMEOUT, stop_after=1))
        except psycopg.Error as error:
            raise self._server.unavailable(error) from error
        finally:
            close_quietly(connection.close)
        if received:
            return Fact("wake-ups", "by LISTEN and NOTIFY")
        return Fact(
            "wake-ups", f"LISTEN receives no NOTIFY, so workers poll every {IDLE_POLL_SECONDS:g} s", warning=True
        )

    def close(self) -> None:
        self._connections.close()


def _is_notified(connection: PostgresConnection, queues: Sequence[str], seconds: float) -> bool:
    """Whether a notification of these queues came within so many seconds; it ends no wait for other queues.

    `poll` costs a tenth of waiting in `notifies`, which also wakes ten times a second.
    """
    readable = select.poll()
    readable.register(connection.fileno(), select.POLLIN)
    give_up = time.monotonic() + seconds
    while readable.poll(int(max(0.0, give_up - time.monotonic()) * 1000)):
        notified = {notification.payload for notification in connection.notifies(timeout=0)}
        if notified.intersection(queues):
            return True
    time.sleep(seconds % 0.001)  # poll counts whole milliseconds, and a delayed job may be due
    return False


def _close(connection: PostgresConnection | None) -> None:
    if connection is not None:
        close_quietly(connection.close)
