"""Patience: repeating what may be repeated while a server is away for a moment."""

import time
from collections.abc import Callable
from typing import TypeVar

from tenure.errors import BackendUnavailable

T = TypeVar("T")
_PATIENCE = 2.0  # a restart takes about a second; who waits longer wants to know
_PAUSES = (0.0, 0.02, 0.1, 0.3)


def patiently(act: Callable[[], T], repeated: Callable[[], None] = lambda: None) -> T:
    """Act, and again after a lost connection, once at least and for two seconds at most; `repeated` is told first."""
    give_up = time.monotonic() + _PATIENCE
    tries = 0
    while True:
        try:
            return act()
        except BackendUnavailable:
            tries += 1
            if tries > 1 and time.monotonic() > give_up:
                raise
            repeated()
            time.sleep(_PAUSES[min(tries, len(_PAUSES)) - 1])
