"""Threads beside the jobs of a child: they stop jobs whose leases end, and tell the parent what blocks the child."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tenure.execution.shared_memory import SharedMemory

_HEARTBEAT_INTERVAL = 0.1
_BLOCKED_AFTER = 0.25  # seconds
_LEASE_POLL_SECONDS = (0.1, 5.0)  # at least and at most
TaskTickets = dict["asyncio.Task[Any] | None", int]  # of running tasks; `asyncio.current_task` may return None


class LeaseMonitor:
    """A thread that kills this child, and what its jobs have started, when the leases of its jobs end.

    A parent that works renews the leases or stops the jobs before. One that is stopped, or gets no time to run, does
    neither, and other workers run the jobs again.
    """

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        threading.Thread(target=self._run, name="tenure-lease-monitor", daemon=True).start()

    def _run(self) -> None:
        shortest, longest = _LEASE_POLL_SECONDS
        while True:
            left = self._memory.leases_end() - time.monotonic()
            if left <= 0 and self._memory.running():
                self._memory.give_up()
                os.killpg(0, signal.SIGKILL)
            time.sleep(min(max(left, shortest), longest))


class ChildHeartbeat:
    """A thread that writes the time into the shared memory. A call into C that holds the interpreter lock stops it.

    After each beat it calls `checks`.
    """

    def __init__(self, memory: SharedMemory, *checks: Callable[[], None]) -> None:
        self._memory = memory
        self._checks = checks
        memory.beat()
        threading.Thread(target=self._run, name="tenure-heartbeat", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_HEARTBEAT_INTERVAL)
            self._memory.beat()
            for check in self._checks:
                check()


class LoopMonitor:
    """Checks an event loop from another thread: a loop that has not run for a while is blocked by its current task."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: SharedMemory,
        tickets: TaskTickets,
        on_turn: Callable[[], None],
    ) -> None:
        """`on_turn` is called in the loop after each check that reached it."""
        self._loop = loop
        self._memory = memory
        self._tickets = tickets
        self._on_turn = on_turn
        self._last_turn = time.monotonic()
        self._turn_requested = False

    def check(self) -> None:
        if not self._turn_requested:
            self._turn_requested = True
            with suppress(RuntimeError):  # the loop is closed: the child is leaving
                self._loop.call_soon_threadsafe(self._turn)
        if time.monotonic() - self._last_turn > _BLOCKED_AFTER:
            self._memory.set_blocking_ticket(self._tickets.get(asyncio.current_task(self._loop), 0))

    def _turn(self) -> None:
        self._last_turn = time.monotonic()
        self._turn_requested = False
        self._memory.set_blocking_ticket(0)
        self._on_turn()
