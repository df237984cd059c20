"""Background: slow answers that all viewers share; a thread reads each, one at a time, while requests get the last one.

A request waits a moment for the first answer only, and never for a newer one.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tenure.errors import TenureError

logger = logging.getLogger(__name__)

A = TypeVar("A")
FIRST_WAIT_SECONDS = 0.05  # for the first answer of a name: most take less
_COST_SHARE = 20  # an answer that takes d seconds is not read again before 20 d: at most 5 % of the time


@dataclass(frozen=True)
class Answer(Generic[A]):
    """What was read last, None if nothing was; `error` is why the last read failed."""

    value: A | None = None
    error: str | None = None
    is_reading: bool = False


@dataclass
class _BackgroundRead:
    value: Any = None
    error: str | None = None
    read_at: float | None = None  # monotonic time of the last start
    was_read: bool = False
    cost: float = 0.0
    thread: threading.Thread | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Background:
    """The answers by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _BackgroundRead] = {}
        self._stopped = False

    def get(self, name: str, read: Callable[[], A], fresh: float, wait: float = 0.0) -> Answer[A]:
        """The last answer; one that is older than `fresh` seconds is read again behind it.

        If there is none yet, it waits up to `wait` seconds for the first.
        """
        with self._lock:
            entry = self._entries.setdefault(name, _BackgroundRead())
            age = None if entry.read_at is None else time.monotonic() - entry.read_at
            is_due = age is None or age >= max(fresh, entry.cost * _COST_SHARE)
            if is_due and entry.thread is None and not self._stopped:
                entry.read_at = time.monotonic()
                entry.done.clear()
                entry.thread = threading.Thread(target=self._run, args=(entry, read, name), daemon=True)
                entry.thread.start()
        if wait and not entry.was_read:
            entry.done.wait(wait)
        return Answer(entry.value, entry.error, is_reading=entry.thread is not None)

    def close(self) -> None:
        """Wait for what is being read; nothing is read afterwards."""
        with self._lock:
            self._stopped = True
            threads = [entry.thread for entry in self._entries.values()]
        for thread in threads:
            if thread is not None:
                thread.join()

    def _run(self, entry: _BackgroundRead, read: Callable[[], Any], name: str) -> None:
        started = time.monotonic()
        try:
            entry.value, entry.error = read(), None
        except TenureError as error:
            logger.warning("the dashboard cannot read %s: %s", name, error)
            entry.error = str(error)
        except Exception:  # requests must learn of it, and the thread has no caller
            logger.exception("the dashboard cannot read %s", name)
            entry.error = "an unexpected error, which is in the log of the dashboard"
        finally:
            entry.was_read = True
            entry.cost = time.monotonic() - started
            entry.thread = None
            entry.done.set()
