"""Roles: the long-running threads of a worker, the delay they wait between two tries, and how they log an outage.

A role that fails never ends silently: its error is logged and passed on, and it stops the worker.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

_QUIET_SECONDS = 10.0  # a backend that fails again within this time is not reported again
_STABLE_SECONDS = 1.0  # an answer this long after the last failure ends an outage


class Role(Protocol):
    """Something that runs in its own thread until `stop` is called."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


class RoleThread:
    """A role and its thread."""

    def __init__(
        self, role: Role, on_error: Callable[[BaseException], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_error` receives the error that ended the role; `on_end` is called however the role ended."""
        self._role = role
        self._on_error = on_error
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name=f"tenure-{type(role).__name__.lower()}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self, timeout: float | None = None) -> None:
        """Stop the role and wait until its thread has ended, at most `timeout` seconds."""
        self._role.stop()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._role.run()
        except BaseException as error:
            logger.exception("the %s failed", type(self._role).__name__.lower())
            self._on_error(error)
        finally:
            self._on_end()


class GrowingDelay:
    """Doubles from `first` seconds up to `longest`; each delay varies by a fifth, so that workers spread out."""

    def __init__(self, first: float = 0.05, longest: float = 5.0) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next(self) -> float:
        """The seconds to wait now; the next call returns about twice as many."""
        delay = self._next
        self._next = min(self._longest, delay * 2)
        return delay * (0.8 + 0.4 * random.random())  # noqa: S311 - jitter

    def reset(self) -> None:
        self._next = self._first


class OutageLog:
    """Logs an outage of the backend once for all roles of a worker, where it begins and where it ends.

    All that fails in between is logged at the level debug.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = self._reported = self._failed = float("-inf")
        self.is_on = False

    def failed(self, role_logger: logging.Logger, what: str, error: Exception) -> None:
        """A call of the backend failed and will be tried again; `what` says what it was for."""
        with self._lock:
            now = self._failed = time.monotonic()
            is_report = not self.is_on and now - self._reported > _QUIET_SECONDS
            if not self.is_on:
                self.is_on, self._began = True, now
            if is_report:
                self._reported = now
        role_logger.log(logging.WARNING if is_report else logging.DEBUG, "%s failed, trying again: %s", what, error)

    def answered(self) -> None:
        """The backend answered; call it only while `is_on`."""
        with self._lock:
            now = time.monotonic()
            if not self.is_on or now - self._failed < _STABLE_SECONDS:
                return  # other calls may still fail
            self.is_on = False
            is_report = self._reported >= self._began
        if is_report:
            logger.warning("the backend answers again, after %.0f s", now - self._began)
