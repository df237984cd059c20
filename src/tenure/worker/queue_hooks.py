"""Queue hooks: calls `setup` and `refresh` of the queue classes that a worker serves, each in its own thread.

The worker waits for none of them: a hook that hangs or raises is logged, and the jobs continue.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tenure.definition.callables import completed, refuse_lazy
from tenure.definition.queues import QueueClass
from tenure.errors import DeadlineExceeded
from tenure.execution.deadline import raise_in_thread

logger = logging.getLogger(__name__)

_STOP_GRACE = 0.2  # a call that began this shortly before the stop may end


class QueueHooks:
    """Calls `setup` once at the start and `refresh` at every interval; each call may take `timeout` seconds.

    A queue has one call at a time: while `setup` or `refresh` hangs, `refresh` is not called again.
    """

    def __init__(self, classes: Sequence[QueueClass], worker: str, interval: float, timeout: float) -> None:
        self._classes = classes
        self._worker = worker
        self._interval = interval
        self._timeout = timeout
        self._stopping = threading.Event()
        self._calls: dict[str, _HookCall] = {}

    def run(self) -> None:
        refresh_at = time.monotonic() + self._interval
        self._call_all("setup")
        while not self._stopping.wait(self._seconds_until(refresh_at)):
            for call in self._calls.values():
                call.check()
            if time.monotonic() >= refresh_at:
                refresh_at = time.monotonic() + self._interval
                self._call_all("refresh")
        for call in self._calls.values():
            call.wait(_STOP_GRACE)

    def stop(self) -> None:
        self._stopping.set()

    def _call_all(self, name: str) -> None:
        for queue in self._classes:
            hook = getattr(queue, name, None)
            if hook is not None and not (queue.name in self._calls and self._calls[queue.name].is_running()):
                self._calls[queue.name] = _HookCall(
                    hook, f"{name} of queue {queue.name!r}", self._worker, self._timeout
                )

    def _seconds_until(self, refresh_at: float) -> float:
        moments = [call.interrupt_at for call in self._calls.values() if call.is_running()]
        return max(0.0, min([refresh_at, *moments]) - time.monotonic())


class _HookCall:
    """One call of a hook; an error or a timeout is logged once."""

    def __init__(self, hook: Callable[[str], Any], what: str, worker: str, timeout: float) -> None:
        self._hook = hook
        self._what = what
        self._worker = worker
        self._timeout = timeout
        self._began = time.monotonic()
        self.interrupt_at = self._began + timeout
        self._thread = threading.Thread(target=self._run, name="tenure-hook", daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self, age: float) -> None:
        """Wait until the call has ended, or has run for `age` seconds."""
        self._thread.join(max(0.0, self._began + age - time.monotonic()))

    def check(self) -> None:
        """Interrupt the call after its timeout; a call into C is interrupted only when it returns."""
        if self.is_running() and time.monotonic() >= self.interrupt_at:
            self.interrupt_at = math.inf
            logger.error(
                "%s ran past its %g s and is interrupted; the worker continues, and calls it again once it has ended: "
                "give what it waits for a timeout, or raise the setting hook_timeout", self._what, self._timeout,
            )  # fmt: skip
            raise_in_thread(self._thread.ident or 0, DeadlineExceeded)

    def _run(self) -> None:
        try:
            result = self._hook(self._worker)
            if isinstance(result, Awaitable):
                result = asyncio.run(completed(result, self._what))
            refuse_lazy(result, self._what)
        except DeadlineExceeded:
            return  # `check` has logged it
        except BaseException:
            logger.exception("%s failed; the worker continues: fix the hook, or catch the error in it", self._what)
