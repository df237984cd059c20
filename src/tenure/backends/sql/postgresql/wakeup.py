"""Waiting for work on PostgreSQL: by notification where the server can send one, else by looking.

A notification takes a lock that all commits share, so a producer sends at most one a queue in a while.
A worker that just had work therefore looks often for that long, and only then relies on being told.
"""

import time
from collections.abc import Callable, Iterable

import psycopg

from tenure.backends.sql.connections import Connections
from tenure.backends.sql.postgresql.server import Connection, Server, quietly
from tenure.backends.upkeep import Fact
from tenure.errors import BackendUnavailable

BETWEEN_NOTICES = 0.05
_EAGER = BETWEEN_NOTICES + 0.02
_EAGER_LOOK = 0.002
_BLIND_LOOK = 0.025  # 40 looks a second cost about half a percent of a core
_TRIAL = 5.0
_SLOW_LOOK = 0.5  # behind every notification: it may be held back, or lost with its connection


class Bell:
    """Rings for queues, but not too often."""

    def __init__(self) -> None:
        self._rung: dict[str, float] = {}

    def due(self, queues: Iterable[str]) -> list[str]:
        """Those of these queues that may be told of now."""
        now = time.monotonic()
        told = [queue for queue in set(queues) if now - self._rung.get(queue, -1.0) >= BETWEEN_NOTICES]
        self._rung.update(dict.fromkeys(told, now))
        return told


class Ears:
    """The listening connections of a process; `busy` says that there was work just now."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._worked = 0.0
        self._connections: Connections[Connection | None] = Connections(server.listen, _close)

    def busy(self) -> None:
        self._worked = time.monotonic()

    def wait(self, seconds: float) -> None:
        if time.monotonic() - self._worked < _EAGER:
            time.sleep(min(seconds, _EAGER_LOOK))
            return
        try:
            connection = self._connections.take()
        except BackendUnavailable:
            time.sleep(min(seconds, _BLIND_LOOK))
            return
        if connection is None:
            time.sleep(min(seconds, _BLIND_LOOK))
            return
        try:
            for _ in connection.notifies(timeout=min(seconds, _SLOW_LOOK), stop_after=1):
                pass
        except psycopg.Error:
            self._connections.drop(connection)
            time.sleep(min(seconds, _BLIND_LOOK))
        else:
            self._connections.give(connection)

    def fact(self, ring: Callable[[], object]) -> Fact:
        """How workers are woken, tried out: when somebody rings, it must be heard."""
        connection = None if self._server.pooled else self._server.listen()
        if connection is None:
            return Fact("wake-ups", "by looking every 25 ms: a pooler, or listen=off")
        try:
            ring()
            heard = list(connection.notifies(timeout=_TRIAL, stop_after=1))
        except psycopg.Error as error:
            raise self._server.unavailable(error) from error
        finally:
            quietly(connection.close)
        if heard:
            return Fact("wake-ups", "by LISTEN and NOTIFY")
        return Fact("wake-ups", f"LISTEN hears no NOTIFY, so that workers look every {_SLOW_LOOK:g} s", warning=True)

    def close(self) -> None:
        """One wait is over; the connections stay for the next."""

    def shut(self) -> None:
        self._connections.close()


def _close(connection: Connection | None) -> None:
    if connection is not None:
        quietly(connection.close)
