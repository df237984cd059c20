"""How producers wake waiting workers on PostgreSQL: with NOTIFY and LISTEN, or workers poll.

A notification takes a lock that all commits share, so a producer sends at most one for each queue in a short interval.
A worker that just had work therefore polls often for that interval, and only then waits for notifications.
"""

import time
from collections.abc import Iterable

import psycopg

from tenure.backends.records import Fact
from tenure.backends.sql.connections import Connections, poll
from tenure.backends.sql.dialect import Rows
from tenure.backends.sql.postgresql.connection import PostgresConnection, PostgresServer, close_quietly, text_array
from tenure.errors import BackendUnavailable

NOTIFY = "SELECT pg_notify('tenure', queue) FROM unnest(%(notify)s::text[]) AS queue"
NOTIFY_INTERVAL = 0.05
_POLL_AFTER_WORK = NOTIFY_INTERVAL + 0.02  # seconds in which a worker that had work polls
_POLL_AFTER_WORK_SECONDS = 0.002
_IDLE_POLL_SECONDS = 0.5  # besides notifications, which may be late, or lost with their connection
_TRIAL_TIMEOUT = 5.0


class PostgresNotifier:
    """Notifies the workers that wait for a queue, at most once an interval; behind a pooler it does nothing."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._notified: dict[str, float] = {}

    def due(self, queues: Iterable[str]) -> list[str]:
        """The queues to notify now; the caller sends the notification."""
        if self._server.pooled:
            return []
        now = time.monotonic()
        due = [queue for queue in set(queues) if now - self._notified.get(queue, -1.0) >= NOTIFY_INTERVAL]
        self._notified.update(dict.fromkeys(due, now))
        return due

    def notify(self, rows: Rows, queues: Iterable[str]) -> None:
        """Notify in a transaction; workers hear it when it commits."""
        due = self.due(queues)
        if due:
            rows(NOTIFY, {"notify": text_array(due)})


class PostgresListener:
    """The listening connections of a process."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._last_work = 0.0
        self._connections: Connections[PostgresConnection | None] = Connections(server.listen, _close)

    def had_work(self) -> None:
        self._last_work = time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait for a notification or the next poll, at most this long."""
        if time.monotonic() - self._last_work < _POLL_AFTER_WORK:
            time.sleep(min(seconds, _POLL_AFTER_WORK_SECONDS))
            return
        try:
            connection = self._connections.take()
        except BackendUnavailable:
            connection = None
        if connection is None:
            poll(seconds, self._last_work)
            return
        try:
            for _ in connection.notifies(timeout=min(seconds, _IDLE_POLL_SECONDS), stop_after=1):
                pass
        except psycopg.Error:
            self._connections.drop(connection)
            poll(seconds, self._last_work)
        else:
            self._connections.give(connection)

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
            "wake-ups", f"LISTEN receives no NOTIFY, so workers poll every {_IDLE_POLL_SECONDS:g} s", warning=True
        )

    def close(self) -> None:
        self._connections.close()


def _close(connection: PostgresConnection | None) -> None:
    if connection is not None:
        close_quietly(connection.close)
