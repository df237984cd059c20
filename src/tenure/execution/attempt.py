"""One attempt at one job: decode the payload, call the handler under its deadline, return the outcome.

`Performer.perform` does not raise (except KeyboardInterrupt), does not sleep and does not retry.
`Performer` runs in the process that calls the handler: the worker (`inline`) or a child.
"""

import asyncio
import concurrent.futures
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from time import monotonic, perf_counter, thread_time
from typing import Any

from msgspec import UNSET, Struct

from tenure.clock import Clock
from tenure.definition import context
from tenure.definition.callables import PLAIN_TYPES, completed, refuse_lazy
from tenure.definition.context import Context, Link, LocalLink
from tenure.definition.failure import from_exception
from tenure.definition.handler import Handler
from tenure.errors import Cancelled, DeadlineExceeded, Interrupt, NewerPayload
from tenure.execution.deadline import AlarmDeadline, Deadline
from tenure.execution.error_outcome import facts_of_error
from tenure.execution.observers import Observed
from tenure.execution.outcome import (
    NOTHING_PRINTED,
    Capture,
    Outcome,
    Printed,
    PrintedText,
    UsageMeter,
    outcome_now,
    success,
)
from tenure.wire.envelope import Envelope, wants_result

logger = logging.getLogger(__name__)

Hook = Callable[..., Any]
TimeLeft = Callable[[], float | None]
_COROUTINE_GRACE = (
    1.0  # asyncio cancels a coroutine at its timeout; one that never awaits is interrupted this much later
)
_MIN_LIMIT = 0.001  # a limit of 0 would mean no limit
_AFTER_RUN_GRACE = 0.75  # the process is killed 1 s after the timeout; `after_run` must end before that
_pid = os.getpid()  # kept, because the system call takes 0.2 µs


class Attempt(Struct, frozen=True):
    """A job opened and ready to run; `ticket` is the caller's own reference to it."""

    handler: Handler
    envelope: Envelope
    number: int
    crashes: int
    fence: int
    timeout: float | None
    ticket: Any


class Performer:
    """Runs attempts one after the other, in the thread that entered it."""

    def __init__(self, clock: Clock, deadline: Deadline | None = None, capture: Capture | None = None) -> None:
        """The default deadline uses SIGALRM, in the main thread. A `capture` that is passed is installed already."""
        self._clock = clock
        self._capture = capture or Capture()
        self._owns_capture = capture is None
        self._printed = PrintedText()
        self._meter = UsageMeter()
        self._loop: asyncio.Runner | None = None
        self._stack = ExitStack()
        self._pid = os.getpid()
        self.deadline = deadline or AlarmDeadline()

    def __enter__(self) -> "Performer":
        if self._owns_capture:
            self._stack.enter_context(self._capture.installed())
        self._stack.enter_context(self.deadline.installed())
        self._stack.callback(self._close_loop)
        self._printed = self._capture.text()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def perform(self, attempt: Attempt, link: Link | None = None) -> Outcome:
        """Run the attempt. Without a link it cannot be cancelled, and its progress is not read."""
        meter, deadline, handler, envelope = self._meter, self.deadline, attempt.handler, attempt.envelope
        cpu = thread_time() if meter.is_due else None
        started, begun = self._clock.now(), perf_counter()
        try:
            value = handler.unpack(envelope.payload, envelope.payload_version)
        except Exception as error:  # declared types may run code of their own when they are built
            return meter.stop(unfit(error, attempt, link or LocalLink(), started, begun), cpu)
        run = RunningAttempt(attempt, to_context(attempt, value, link or LocalLink()), started, begun)
        token = context.enter(run.context)
        try:
            if handler.observers:
                outcome = self._perform_observed(run)
            elif handler.make is not None:
                outcome = self._call_handler_class(run, handler.make)
            elif handler.is_async:
                outcome = self._call_handler(run)
            else:  # most handlers; `_call_handler` would take 0.3 µs more, of 2.3
                try:
                    self._printed.is_open = True
                    deadline.arm(attempt.timeout, run.context.link)
                    result = handler.call(run.context, value)
                    deadline.disarm()
                    outcome = self._finish(run, result)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    outcome = self._fail(run, error)
        except KeyboardInterrupt:
            raise
        except BaseException as late:  # an interrupt arrived after the handler's end and before `disarm`
            deadline.disarm()
            outcome = run.failed(late, self._clock.now())
        finally:
            context.leave(token)
        return meter.stop(outcome, cpu)

    def _perform_observed(self, run: "RunningAttempt") -> Outcome:
        with Observed(run, run.attempt.handler.observers) as observed:
            try:
                make = run.attempt.handler.make
                call = self._call_handler if make is None else partial(self._call_handler_class, make=make)
                return observed.end(call(observed.run))
            except KeyboardInterrupt:
                raise
            except BaseException as late:  # an interrupt arrived after the handler's end and before `disarm`
                self.deadline.disarm()
                return observed.end(observed.run.failed(late, self._clock.now()))

    def _call_handler(self, run: "RunningAttempt", *instance: Any) -> Outcome:
        attempt, job_context = run.attempt, run.context
        handler, payload, link = attempt.handler, job_context.payload, job_context.link
        limit = run.time_left() if instance else attempt.timeout
        self._printed.is_open = True
        try:
            if handler.is_async:
                result = self._await(handler.call(*instance, job_context, payload), limit, link)
            else:
                self.deadline.arm(limit, link)
                result = handler.call(*instance, job_context, payload)
            self.deadline.disarm()
            return self._finish(run, result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._fail(run, error)

    def _finish(self, run: "RunningAttempt", result: Any) -> Outcome:
        """The outcome of an attempt whose handler returned this."""
        if result is not None and type(result) not in PLAIN_TYPES and isinstance(result, Awaitable):
            result = self._await(completed(result, "the handler"), run.time_left(), run.context.link)
            self.deadline.disarm()
        exit_if_forked(self._pid)
        raw = self._capture.raw
        if result is None and not self._printed.parts and (raw is None or raw.is_empty()):  # most handlers
            self._printed.is_open = False
            return Outcome(kind="succeeded", started=run.started, seconds=perf_counter() - run.begun)
        return run.succeeded(result, self._capture.take())

    def _fail(self, run: "RunningAttempt", error: BaseException) -> Outcome:
        self.deadline.disarm()
        exit_if_forked(self._pid)
        self._capture.take()
        return run.failed(error, self._clock.now())

    def _call_handler_class(self, run: "RunningAttempt", make: Callable[[], Any]) -> Outcome:
        """`before_run` may prevent the call by raising. `after_run` always gets the outcome and cannot change it."""
        instance = None
        try:
            instance = make()
            self._call_hook(hook_of(instance, "before_run"), run.time_left, run.context.link, run.context)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome = run.failed(error, self._clock.now())
        else:
            outcome = self._call_handler(run, instance)
        with logging_errors_of_after_run(run.context):
            hook = hook_of(instance, "after_run")
            self._call_hook(hook, run.time_left_for_after_run, LocalLink(), run.context, outcome)
        return outcome

    def _call_hook(self, hook: Hook | None, time_left: TimeLeft, link: Link, *arguments: Any) -> None:
        """Call a sync or async hook under the deadline."""
        if hook is None:
            return
        what = "a hook of the handler"
        try:
            self.deadline.arm(time_left(), link)
            result = hook(*arguments)
            if isinstance(result, Awaitable):
                self.deadline.disarm()
                result = self._await(completed(result, what), time_left(), link)
            refuse_lazy(result, what)
        finally:
            self.deadline.disarm()
            exit_if_forked(self._pid)

    def _await(self, coroutine: Any, limit: float | None, link: Link) -> Any:
        if self._loop is None:
            self._loop = asyncio.Runner()
        loop = self._loop.get_loop()
        try:
            self.deadline.arm(limit + _COROUTINE_GRACE if limit else None, link, lambda: _wake(loop))
        except Interrupt:
            coroutine.close()
            raise
        try:
            # `self._loop.run` would also handle SIGINT, which costs four times as much; workers handle their signals.
            running = coroutine if limit is None else with_timeout(coroutine, limit)
            task = loop.create_task(running, context=copy_context())
            return call_outside_loop(loop.run_until_complete, task)
        except Interrupt:
            self._close_loop()  # it was interrupted at an unknown point, so its state cannot be trusted
            raise

    def _close_loop(self) -> None:
        if self._loop is not None:
            call_outside_loop(self._loop.close)
            self._loop = None


class RunningAttempt(Struct, frozen=True):
    """An attempt that is running; `started` is UTC microseconds, `begun` the same moment by `time.perf_counter`.

    What it raises is added to `raised`, for the observers of the attempt.
    """

    attempt: Attempt
    context: Context
    started: int
    begun: float
    raised: list[BaseException] | None = None

    def time_left(self) -> float | None:
        """Seconds until the timeout, always above 0; None without a timeout."""
        left = self.context.time_left
        return None if left is None else max(left, _MIN_LIMIT)

    def time_left_for_after_run(self) -> float | None:
        """What is left of the timeout and a little more, for an attempt that used it up.

        It ends before the process would be killed, because a kill would change the outcome.
        """
        deadline = self.context.deadline
        return None if deadline is None else max(deadline + _AFTER_RUN_GRACE - monotonic(), _MIN_LIMIT)

    def succeeded(self, result: Any, printed: Printed) -> Outcome:
        seconds = perf_counter() - self.begun
        if result is None and printed is NOTHING_PRINTED:  # most handlers return and print nothing
            return Outcome(kind="succeeded", started=self.started, seconds=seconds)
        return success(result, printed, self.started, seconds, pass_on=wants_result(self.attempt.envelope))

    def failed(self, error: BaseException, now: int) -> Outcome:
        """The outcome of an attempt that raised: what the handler asked for, or what went wrong.

        After a cancel request every error counts as cancelled.
        """
        if self.context.cancelled:
            error = Cancelled()
        if self.raised is not None:
            self.raised.append(error)
        return outcome_now(started=self.started, begun=self.begun, **facts_of_error(error, self.attempt, now))


def unfit(error: Exception, attempt: Attempt, link: Link, started: int, begun: float) -> Outcome:
    """The outcome of an attempt whose payload could not be decoded; the handler was not called."""
    outcome = outcome_now("unfit", started, begun, failure=from_exception(error, started, attempt.number))
    if not attempt.handler.observers:
        return outcome
    run = RunningAttempt(attempt, to_context(attempt, None, link), started, begun)
    with Observed(run, attempt.handler.observers) as observed:
        return observed.end(outcome, error)


def check_version(handler: Handler, envelope: Envelope) -> None:
    """Refuse a payload that is newer than what the handler reads in this process."""
    if envelope.version is not UNSET and envelope.version > handler.version:
        raise NewerPayload(
            f"the payload has version {envelope.version}, but handler {handler.key!r} reads versions up to "
            f"{handler.version} here; deploy the newer handler"
        )


def to_context(attempt: Attempt, value: Any, link: Link) -> Context:
    """What the handler may know about the job."""
    envelope = attempt.envelope
    return Context(
        id=envelope.identifier,
        handler=envelope.job,
        payload=value,
        queue=envelope.queue,
        name=envelope.name,
        attempt=attempt.number,
        crashes=attempt.crashes,
        fence=attempt.fence,
        max_retries=envelope.max_retries,
        meta={} if envelope.meta is UNSET else envelope.meta,
        tags=() if envelope.tags is UNSET else envelope.tags,
        deadline=monotonic() + attempt.timeout if attempt.timeout else None,
        trace=None if envelope.trace is UNSET else envelope.trace,
        link=link,
        breakers=attempt.handler.breakers,
    )


def hook_of(instance: Any, name: str) -> Hook | None:
    """An optional method of a handler class."""
    hook: Hook | None = getattr(instance, name, None)
    return hook


@contextmanager
def logging_errors_of_after_run(job_context: Context) -> Iterator[None]:
    """Log every error of `after_run`; the outcome does not change."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        logger.exception("after_run of handler %r failed; the outcome stands", job_context.handler)


def call_outside_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that runs an event loop; if this thread runs one already, call it in another thread.

    That is so in an async test, or in async code that enqueues on `sync://`.
    """
    if asyncio.events._get_running_loop() is None:
        return function(*arguments)
    with concurrent.futures.ThreadPoolExecutor(1, "tenure-loop") as thread:
        return thread.submit(function, *arguments).result()


async def with_timeout(coroutine: Any, limit: float | None) -> Any:
    if limit is None:
        return await coroutine
    deadline = asyncio.timeout(limit)
    try:
        async with deadline:
            return await coroutine
    except TimeoutError as error:
        if deadline.expired():
            raise DeadlineExceeded("the attempt ran past its timeout") from error
        raise


def exit_if_forked(pid: int) -> None:
    """End a copy of this process that a handler made with `os.fork`: the copy must not work as a second worker."""
    if _pid != pid:
        os._exit(0)


def _note_fork() -> None:
    global _pid
    _pid = os.getpid()


os.register_at_fork(after_in_child=_note_fork)


def _wake(loop: asyncio.AbstractEventLoop) -> None:
    """Make a loop that waits for events run Python code, in which an interrupt can be raised."""
    with suppress(RuntimeError):  # the loop is closed, so the coroutine has ended
        loop.call_soon_threadsafe(lambda: None)
