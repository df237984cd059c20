"""The `event_loop` child: hundreds of coroutines on one loop; sync handlers go to a few threads beside it."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tenure.clock import Clock
from tenure.definition import context
from tenure.definition.failure import from_exception
from tenure.errors import DeadlineExceeded
from tenure.execution.attempt import Attempt, Performer, call_hook, failed, outcome_of, to_context, within
from tenure.execution.capture import Capture
from tenure.execution.children.child import Pipes, Resolve, to_attempt, withdrawn
from tenure.execution.children.frames import Order, Report
from tenure.execution.children.marks import Marks
from tenure.execution.deadline import ThreadDeadline, Watchdog
from tenure.execution.outcome import Outcome, normalise

logger = logging.getLogger(__name__)

_MOST_THREADS = 32


def run_on_loop(pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock) -> None:
    """As many jobs at once as the marks have slots."""
    capture = Capture()
    with capture.installed():
        asyncio.run(_Loop(pipes, marks, resolve, clock, capture).run())


class _Loop:
    """Starts a task an order while slots are free; a thread reads the orders, as pipes may be read anywhere."""

    def __init__(self, pipes: Pipes, marks: Marks, resolve: Resolve, clock: Clock, capture: Capture) -> None:
        self._pipes = pipes
        self._marks = marks
        self._resolve = resolve
        self._clock = clock
        self._performer = LoopPerformer(clock, capture)
        self._free = asyncio.Queue[int]()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        orders = asyncio.Queue[list[Order] | None]()
        for slot in range(self._marks.slots):
            self._free.put_nowait(slot)
        threading.Thread(target=_read, args=(self._pipes, loop, orders), daemon=True).start()
        while (batch := await orders.get()) is not None:
            for order in batch:
                task = loop.create_task(self._run(order, await self._free.get()))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)

    async def _run(self, order: Order, slot: int) -> None:
        try:
            if self._marks.begin(slot, order.ticket):
                outcome = await self._performer.perform(to_attempt(order, self._resolve))
            else:
                outcome = withdrawn(self._clock)
            self._pipes.report(Report(order.ticket, outcome))
            self._marks.end(slot)
        finally:
            self._free.put_nowait(slot)


def _read(pipes: Pipes, loop: asyncio.AbstractEventLoop, orders: "asyncio.Queue[list[Order] | None]") -> None:
    for batch in _until_closed(pipes):
        loop.call_soon_threadsafe(orders.put_nowait, batch)


def _until_closed(pipes: Pipes) -> Iterator[list[Order] | None]:
    yield from pipes.orders()
    yield None


class LoopPerformer:
    """The steps of `Performer`, awaited."""

    def __init__(self, clock: Clock, capture: Capture) -> None:
        self._clock = clock
        self._capture = capture
        self._threads: ThreadPoolExecutor | None = None
        self._watchdog: Watchdog | None = None

    async def perform(self, attempt: Attempt) -> Outcome:
        if not attempt.handler.is_async:
            return await self._on_thread(attempt)
        started, begun = self._clock.now(), time.perf_counter()
        try:
            value = attempt.handler.shape.unpack(attempt.envelope.payload)
        except Exception as error:  # declared types run code of their own while they are built
            return outcome_of("unfit", started, begun, failure=from_exception(error, started, attempt.number))
        subject = to_context(attempt, value)
        context.enter(subject)  # a task has a context of its own: nobody else sees this
        instance: tuple[Any, ...] = ()
        try:
            if attempt.handler.make is not None:
                instance = (attempt.handler.make(),)
                call_hook(instance[0], "before_run", subject)
            self._capture.begin()
            result = await within(attempt.handler.call(*instance, subject, value), attempt.timeout)
        except (Exception, DeadlineExceeded, asyncio.CancelledError, SystemExit) as error:
            outcome = failed(error, started, begun, attempt, self._clock.now())
        else:
            outcome = outcome_of("succeeded", started, begun, output=normalise(result, self._capture.take()))
        if instance:
            try:
                call_hook(instance[0], "after_run", subject, outcome)
            except Exception:
                logger.exception("after_run of handler %r failed; the outcome stands", attempt.handler.key)
        return outcome

    async def _on_thread(self, attempt: Attempt) -> Outcome:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_MOST_THREADS)
            self._watchdog = Watchdog()
        assert self._watchdog is not None  # noqa: S101 - set beside the threads
        performer = Performer(self._clock, ThreadDeadline(self._watchdog), self._capture)
        return await asyncio.get_running_loop().run_in_executor(self._threads, _perform_here, performer, attempt)


def _perform_here(performer: Performer, attempt: Attempt) -> Outcome:
    with performer:
        return performer.perform(attempt)
