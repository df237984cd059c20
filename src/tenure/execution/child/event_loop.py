"""The child of the `event_loop` runner: hundreds of coroutines on one loop; sync handlers run on threads beside it."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from tenure.clock import Clock
from tenure.definition import context
from tenure.definition.callables import PLAIN_TYPES, completed
from tenure.definition.context import Link
from tenure.execution.attempt import (
    Attempt,
    Hook,
    Performer,
    RunningAttempt,
    exit_if_forked,
    hook_of,
    logging_errors_of_after_run,
    to_context,
    unfit,
    with_timeout,
)
from tenure.execution.child.heartbeat import ChildHeartbeat, LoopMonitor, TaskTickets
from tenure.execution.child.orders import OrderHandler, OrderPipes, Resolve, end_process
from tenure.execution.deadline import ThreadDeadline, Watchdog
from tenure.execution.observers import Observed
from tenure.execution.outcome import Capture, Outcome
from tenure.execution.protocol import Order, Report
from tenure.execution.shared_memory import SharedMemory, SharedMemoryLink


def run_on_event_loop(pipes: OrderPipes, memory: SharedMemory, resolve: Resolve, clock: Clock) -> None:
    """Run as many jobs at once as the shared memory has slots."""
    capture = Capture()
    performer = LoopPerformer(clock, capture, memory.slots)
    with capture.installed():
        asyncio.run(_OrderLoop(pipes, OrderHandler(pipes, memory, resolve, clock), performer, memory).run())


class _OrderLoop:
    """Starts one task for each order while slots are free.

    Jobs that end in one turn of the loop are reported in one write. If a job blocks the loop, the heartbeat thread
    reports the jobs that have ended.
    """

    def __init__(
        self, pipes: OrderPipes, orders: OrderHandler, performer: "LoopPerformer", memory: SharedMemory
    ) -> None:
        self._pipes = pipes
        self._orders = orders
        self._performer = performer
        self._memory = memory
        self._free_slots = list(range(memory.slots))
        self._waiting: deque[Order] = deque()
        self._ended: deque[tuple[int, Report]] = deque()
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._clean_context = copy_context()  # outside every job: the next job must not see what one leaves in its own
        self._tickets: TaskTickets = {}

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()  # kept, because each question for it is a system call on Python 3.11
        monitor = LoopMonitor(self._loop, self._memory, self._tickets, self._cancel_requested)
        ChildHeartbeat(self._memory, monitor.check, self._report_ended)
        self._loop.add_reader(self._pipes.orders, self._read)
        await self._over.wait()

    def _read(self) -> None:
        try:
            orders = self._pipes.read()
        except OSError as error:
            end_process(error)
        if orders is None:
            self._loop.remove_reader(self._pipes.orders)
            self._over.set()
        else:
            self._waiting.extend(orders)
            self._start_tasks()

    def _start_tasks(self) -> None:
        while self._free_slots and self._waiting:
            order = self._waiting.popleft()
            task = self._loop.create_task(self._run_order(order, self._free_slots.pop()))
            self._tickets[task] = order.ticket

    async def _run_order(self, order: Order, slot: int) -> None:
        try:
            if attempt := self._orders.start(slot, order):
                outcome = await self._performer.perform(attempt, SharedMemoryLink(self._memory, slot, order.ticket))
                self._report_soon()
                self._ended.append((slot, Report(order.ticket, outcome)))
            else:
                self._report_soon()
                self._free_slots.append(slot)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            end_process(error)
        finally:  # here, because a callback of the task would take 1 µs more
            self._tickets.pop(asyncio.current_task(self._loop), None)

    def _report_soon(self) -> None:
        """Report this job, and start others in its place, after the jobs that end in the same turn of the loop."""
        if not self._ended:
            self._loop.call_soon(self._report_and_start, context=self._clean_context)

    def _report_and_start(self) -> None:
        self._report_ended()
        self._start_tasks()

    def _report_ended(self) -> None:
        """Report every job that has ended; called by the loop and by the heartbeat thread."""
        ended: list[tuple[int, Report]] = []
        with suppress(IndexError):
            while True:
                ended.append(self._ended.popleft())
        if ended:
            self._orders.report_all(ended)
            self._free_slots.extend(slot for slot, _ in ended)

    def _cancel_requested(self) -> None:
        """Cancel the coroutines that the parent wants cancelled; the watchdog does it for handlers on threads."""
        requested = self._memory.cancel_requests() - self._performer.on_threads
        for task, ticket in self._tickets.items() if requested else ():
            if task and ticket in requested and not task.cancelling():
                task.cancel()


class LoopPerformer:
    """The steps of `Performer`, awaited; `on_threads` holds the tickets of sync handlers."""

    def __init__(self, clock: Clock, capture: Capture, threads: int) -> None:
        self._clock = clock
        self._capture = capture
        self._max_threads = threads
        self._threads: ThreadPoolExecutor | None = None
        self._watchdog: Watchdog | None = None
        self._pid = os.getpid()
        self.on_threads: set[int] = set()

    async def perform(self, attempt: Attempt, link: Link) -> Outcome:
        if not attempt.handler.is_async:
            return await self._perform_on_thread(attempt, link)
        started, begun = self._clock.now(), time.perf_counter()
        try:
            value = attempt.handler.unpack(attempt.envelope.payload, attempt.envelope.payload_version)
        except Exception as error:  # declared types may run code of their own when they are built
            return unfit(error, attempt, link, started, begun)
        run = RunningAttempt(attempt, to_context(attempt, value, link), started, begun)
        context.enter(run.context)  # a task has a context of its own: no other job sees this
        if not attempt.handler.observers:
            return await self._call_handler(run)
        with Observed(run, attempt.handler.observers) as observed:
            return observed.end(await self._call_handler(observed.run))

    async def _call_handler(self, run: RunningAttempt) -> Outcome:
        attempt = run.attempt
        instance: tuple[Any, ...] = ()
        try:
            if attempt.handler.make is not None:
                instance = (attempt.handler.make(),)
                await with_timeout(_call_hook(hook_of(instance[0], "before_run"), run.context), run.time_left())
            self._capture.begin()
            limit = run.time_left() if instance else attempt.timeout
            called = attempt.handler.call(*instance, run.context, run.context.payload)
            result = await (called if limit is None else with_timeout(called, limit))
            if type(result) not in PLAIN_TYPES and isinstance(result, Awaitable):
                result = await with_timeout(completed(result, "the handler"), run.time_left())
            exit_if_forked(self._pid)
            outcome = run.succeeded(result, self._capture.take())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            exit_if_forked(self._pid)
            self._capture.take()
            outcome = run.failed(error, self._clock.now())
        if instance:
            with logging_errors_of_after_run(run.context):
                hook = hook_of(instance[0], "after_run")
                await with_timeout(_call_hook(hook, run.context, outcome), run.time_left_for_after_run())
        return outcome

    async def _perform_on_thread(self, attempt: Attempt, link: Link) -> Outcome:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._max_threads)
            self._watchdog = Watchdog()
        assert self._watchdog is not None  # noqa: S101 - set beside the threads
        performer = Performer(self._clock, ThreadDeadline(self._watchdog), self._capture)
        loop = asyncio.get_running_loop()
        self.on_threads.add(attempt.ticket)
        try:
            return await loop.run_in_executor(self._threads, _perform_once, performer, attempt, link)
        finally:
            self.on_threads.discard(attempt.ticket)


async def _call_hook(hook: Hook | None, *arguments: Any) -> None:
    """Call a sync or async hook."""
    if hook is not None:
        await completed(hook(*arguments), "a hook of the handler")


def _perform_once(performer: Performer, attempt: Attempt, link: Link) -> Outcome:
    with performer:
        return performer.perform(attempt, link)
