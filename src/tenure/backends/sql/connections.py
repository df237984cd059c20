"""Connections: a pool of idle connections to a database server, and what both servers need around it.

A caller takes a connection for one verb and gives it back, so there are as many as there are threads at work at the
same time. A connection never crosses a fork: a child process does not touch what its parent opened.
"""

import os
import random
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from tenure.errors import BackendUnavailable, UnknownBackend

C = TypeVar("C")
POLL_SECONDS = 0.025  # 40 polls a second cost about half a percent of a core


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


def poll(seconds: float) -> None:
    """A wait for work where the server does not report new work."""
    time.sleep(min(seconds, POLL_SECONDS))


def timeout_option(text: str) -> float:
    """The option `timeout` of a server's URL: how many seconds the server may take to answer."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 3600:
        raise UnknownBackend(f"option timeout={text!r} must be a number of seconds from 1 to 3600")
    return value
