"""Connections: open ones that nobody uses at the moment; whoever needs one takes it for a verb and gives it back.

So there are as many as there are roles at work at the same time. A connection never crosses a fork:
a child leaves alone what its parent opened.
"""

import os
import random
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from tenure.errors import BackendUnavailable

C = TypeVar("C")


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
        """One that is idle, or a new one."""
        if self._closed:
            raise BackendUnavailable("the backend is closed")
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._inherited += self._idle  # kept, so that nothing closes what the parent still uses
            self._idle = []
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def give(self, connection: C) -> None:
        """Back, for the next one."""
        if self._closed:
            self._close(connection)
        else:
            self._idle.append(connection)

    def drop(self, connection: C) -> None:
        """This one is of no use any more, and those that are idle have most likely met the same fate."""
        self._close(connection)
        self._empty()

    def close(self) -> None:
        self._closed = True
        if self._pid == os.getpid():
            self._empty()

    def _empty(self) -> None:
        while self._idle:
            self._close(self._idle.pop())


def give_way(tries: int) -> None:
    """Wait a little, longer after more tries, so that those who met do not meet again."""
    time.sleep(random.uniform(0, 0.002 * 2**tries))  # noqa: S311 - only spreads the tries
