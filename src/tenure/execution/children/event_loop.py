"""The `event_loop` child: hundreds of coroutines on one loop; sync handlers run on threads beside it."""

import asyncio
import inspect
import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from tenure.clock import Clock
from tenure.definition import context
from tenure.definition.failure import from_exception
from tenure.definition.link import Link
from tenure.execution.attempt import (
    Attempt,
    Performer,
    failed,
    only_in,
    outcome_of,
    to_context,
    within,
)
from tenure.execution.capture import Capture
from tenure.execution.children.child import Desk, Pipes, Resolve, end_process
from tenure.execution.children.frames import Order, Report
from tenure.execution.children.marked_link import MarkedLink
from tenure.execution.children.marks import Marks
from tenure.execution.children.pulse import LoopWatch, Pulse
from tenure.execution.deadline import ThreadDeadline, Watchdog
from tenure.execution.hooks import Hook, after_run, at_least, hook_of, last_words
from tenure.execution.outcome import Outcome, is_json, normalise


def run_on_loop(pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
    """As many jobs at once as the marks have slots."""
    capture = Capture()
    performer = LoopPerformer(clock, capture, marks.slots)
    with capture.installed():
        asyncio.run(_Loop(pipes, Desk(pipes, marks, resolve, clock), performer, marks).run())


class _Loop:
    """Starts a task an order while slots are free.

    What ends in one turn of the loop is reported in one write; should a job block the loop, the pulse reports the rest.
    """

    def __init__(self, pipes: Pipes, desk: Desk, performer: "LoopPerformer", marks: Marks) -> None:
        self._pipes = pipes
        self._desk = desk
        self._performer = performer
        self._marks = marks
        self._free = list(range(marks.slots))
        self._waiting: deque[Order] = deque()
        self._ended: deque[tuple[int, Report]] = deque()
        self._over = asyncio.Event()
        self._outside = copy_context()  # of every job: what one leaves in its context is not for the next
        self._tickets: dict[asyncio.Task[None], int] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        Pulse(self._marks, LoopWatch(loop, self._marks, self._tickets, self._cancel_asked).look, self._report)
        loop.add_reader(self._pipes.orders, self._read)
        await self._over.wait()

    def _read(self) -> None:
        try:
            orders = self._pipes.read()
        except OSError as error:
            end_process(error)
        if orders is None:
            asyncio.get_running_loop().remove_reader(self._pipes.orders)
            self._over.set()
        else:
            self._waiting.extend(orders)
            self._start()

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        while self._free and self._waiting:
            order = self._waiting.popleft()
            task = loop.create_task(self._run(order, self._free.pop()))
            self._tickets[task] = order.ticket
            task.add_done_callback(self._forget)

    async def _run(self, order: Order, slot: int) -> None:
        if attempt := self._desk.begin(slot, order):
            outcome = await self._performer.perform(attempt, MarkedLink(self._marks, slot, order.ticket))
            if not self._ended:
                asyncio.get_running_loop().call_soon(self._go_on, context=self._outside)
            self._ended.append((slot, Report(order.ticket, outcome)))
        else:
            self._free.append(slot)

    def _go_on(self) -> None:
        self._report()
        self._start()

    def _report(self) -> None:
        """Tell of every job that has ended; called by the loop and by the pulse's thread."""
        ended: list[tuple[int, Report]] = []
        with suppress(IndexError):
            while True:
                ended.append(self._ended.popleft())
        if ended:
            self._desk.report_all(ended)
            self._free.extend(slot for slot, _ in ended)

    def _cancel_asked(self) -> None:
        """Cancel the coroutines whose jobs somebody wants cancelled; threads have a watchdog for that."""
        asked = self._marks.asked() - self._performer.on_threads
        for task, ticket in self._tickets.items() if asked else ():
            if ticket in asked and not task.cancelling():
                task.cancel()

    def _forget(self, task: "asyncio.Task[None]") -> None:
        del self._tickets[task]
        if not task.cancelled() and (error := task.exception()):
            end_process(error)
        self._start()


class LoopPerformer:
    """The steps of `Performer`, awaited; `on_threads` are the tickets of sync handlers."""

    def __init__(self, clock: Clock, capture: Capture, threads: int) -> None:
        self._clock = clock
        self._capture = capture
        self._most_threads = threads
        self._threads: ThreadPoolExecutor | None = None
        self._watchdog: Watchdog | None = None
        self._pid = os.getpid()
        self.on_threads: set[int] = set()

    async def perform(self, attempt: Attempt, link: Link) -> Outcome:
        if not attempt.handler.is_async:
            return await self._on_thread(attempt, link)
        started, begun = self._clock.now(), time.perf_counter()
        try:
            value = attempt.handler.unpack(attempt.envelope.payload, attempt.envelope.payload_version)
        except Exception as error:  # declared types run code of their own while they are built
            return outcome_of("unfit", started, begun, failure=from_exception(error, started, attempt.number))
        subject = to_context(attempt, value, link)
        context.enter(subject)  # a task has a context of its own: nobody else sees this
        instance: tuple[Any, ...] = ()
        try:
            if attempt.handler.make is not None:
                instance = (attempt.handler.make(),)
                await within(_awaited(hook_of(instance[0], "before_run"), subject), at_least(subject.time_left))
            self._capture.begin()
            limit = at_least(subject.time_left) if instance else attempt.timeout
            result = await within(attempt.handler.call(*instance, subject, value), limit)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            only_in(self._pid)
            outcome = failed(error, started, begun, attempt, self._clock.now(), cancelled=link.cancelled)
        else:
            only_in(self._pid)
            output = normalise(result, self._capture.take())
            outcome = outcome_of("succeeded", started, begun, output=output, is_json=is_json(result))
        if instance:
            with after_run(subject):
                await within(_awaited(hook_of(instance[0], "after_run"), subject, outcome), last_words(subject))
        return outcome

    async def _on_thread(self, attempt: Attempt, link: Link) -> Outcome:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._most_threads)
            self._watchdog = Watchdog()
        assert self._watchdog is not None  # noqa: S101 - set beside the threads
        performer = Performer(self._clock, ThreadDeadline(self._watchdog), self._capture)
        loop = asyncio.get_running_loop()
        self.on_threads.add(attempt.ticket)
        try:
            return await loop.run_in_executor(self._threads, _perform_here, performer, attempt, link)
        finally:
            self.on_threads.discard(attempt.ticket)


async def _awaited(hook: Hook | None, *arguments: Any) -> None:
    """Call a hook, plain or async."""
    if hook is not None and inspect.iscoroutine(result := hook(*arguments)):
        await result


def _perform_here(performer: Performer, attempt: Attempt, link: Link) -> Outcome:
    with performer:
        return performer.perform(attempt, link)
