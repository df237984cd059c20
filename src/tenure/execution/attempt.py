"""Attempt: one run of one job; `Performer.perform` never raises, never sleeps and never retries."""

import asyncio
import inspect
import logging
import os
import time
from contextlib import ExitStack, suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET, Struct

from tenure.clock import MICROSECOND, Clock, to_microseconds
from tenure.definition import context
from tenure.definition.context import Context
from tenure.definition.duration import Duration, to_moment, to_seconds
from tenure.definition.failure import Failure, carriable, from_exception
from tenure.definition.handler import Handler
from tenure.definition.link import Link, LocalLink
from tenure.errors import (
    Cancel,
    Cancelled,
    CircuitOpen,
    DeadlineExceeded,
    Interrupt,
    InvalidJob,
    NewerPayload,
    Postpone,
    Refused,
    Retry,
    StopNow,
)
from tenure.execution.capture import Capture
from tenure.execution.deadline import AlarmDeadline, Deadline
from tenure.execution.hooks import Hook, after_run, at_least, hook_of, last_words
from tenure.execution.outcome import Kind, Outcome, is_json, normalise
from tenure.execution.usage import Meter
from tenure.guards.guard import Refusal
from tenure.wire.envelope import Envelope

logger = logging.getLogger(__name__)

_COROUTINE_GRACE = 1.0  # a coroutine is cancelled at its timeout; one that computes on is interrupted this much later


class Attempt(Struct, frozen=True):
    """A job opened and ready to run; `ticket` is the caller's own handle on it."""

    handler: Handler
    envelope: Envelope
    number: int
    crashes: int
    fence: int
    timeout: float | None
    ticket: Any


def check_version(handler: Handler, envelope: Envelope) -> None:
    """Refuse a payload that is newer than what the handler reads here."""
    if envelope.version is not UNSET and envelope.version > handler.version:
        raise NewerPayload(
            f"the payload is of version {envelope.version} and handler {handler.key!r} reads up to {handler.version} "
            "here; deploy the newer handler"
        )


class Performer:
    """Runs attempts one after the other in the thread that entered it."""

    def __init__(self, clock: Clock, deadline: Deadline | None = None, capture: Capture | None = None) -> None:
        """Without a deadline of its own it uses SIGALRM, in the main thread; a capture that is given is in place."""
        self._clock = clock
        self._capture = capture or Capture()
        self._shared = capture is not None
        self._meter = Meter()
        self._loop: asyncio.Runner | None = None
        self._stack = ExitStack()
        self._pid = os.getpid()
        self.deadline = deadline or AlarmDeadline()

    def __enter__(self) -> "Performer":
        if not self._shared:
            self._stack.enter_context(self._capture.installed())
        self._stack.enter_context(self.deadline.installed())
        self._stack.callback(self._close_loop)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def perform(self, attempt: Attempt, link: Link | None = None) -> Outcome:
        """Without a link, nobody can follow or cancel it."""
        self._meter.start()
        outcome = self._perform(attempt, link)
        self._meter.stop(outcome)
        return outcome

    def _perform(self, attempt: Attempt, link: Link | None) -> Outcome:
        started, begun = self._clock.now(), time.perf_counter()
        try:
            value = attempt.handler.unpack(attempt.envelope.payload, attempt.envelope.payload_version)
        except Exception as error:  # declared types run code of their own while they are built
            return outcome_of("unfit", started, begun, failure=from_exception(error, started, attempt.number))
        subject = to_context(attempt, value, link or LocalLink())
        token = context.enter(subject)
        try:
            if attempt.handler.make is None:
                return self._run(attempt, subject, value, started, begun)
            return self._run_with_hooks(attempt, subject, value, started, begun)
        except KeyboardInterrupt:
            raise
        except BaseException as late:  # an interrupt that came between the handler's end and the disarming
            self.deadline.disarm()
            return failed(late, started, begun, attempt, self._clock.now(), cancelled=subject.cancelled)
        finally:
            context.leave(token)

    def _run_with_hooks(self, attempt: Attempt, subject: Context, value: Any, started: int, begun: float) -> Outcome:
        """`before_run` may veto the call; `after_run` always sees the outcome and cannot change it."""
        assert attempt.handler.make is not None  # noqa: S101 - the caller asked
        instance = None
        try:
            instance = attempt.handler.make()
            self._call_hook(hook_of(instance, "before_run"), at_least(subject.time_left), subject.link, subject)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome = failed(error, started, begun, attempt, self._clock.now(), cancelled=subject.cancelled)
        else:
            outcome = self._run(attempt, subject, value, started, begun, instance)
        with after_run(subject):
            self._call_hook(hook_of(instance, "after_run"), last_words(subject), LocalLink(), subject, outcome)
        return outcome

    def _call_hook(self, hook: Hook | None, limit: float | None, link: Link, *arguments: Any) -> None:
        """Under the deadline, plain or async."""
        if hook is None:
            return
        try:
            self.deadline.arm(limit, link)
            result = hook(*arguments)
            if inspect.iscoroutine(result):
                self.deadline.disarm()
                self._await(result, limit, link)
        finally:
            self.deadline.disarm()
            only_in(self._pid)

    def _run(
        self, attempt: Attempt, subject: Context, value: Any, started: int, begun: float, *instance: Any
    ) -> Outcome:
        limit = at_least(subject.time_left) if instance else attempt.timeout
        self._capture.begin()
        try:
            if attempt.handler.is_async:
                result = self._await(attempt.handler.call(*instance, subject, value), limit, subject.link)
            else:
                self.deadline.arm(limit, subject.link)
                result = attempt.handler.call(*instance, subject, value)
            self.deadline.disarm()
            only_in(self._pid)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.deadline.disarm()
            only_in(self._pid)
            self._capture.take()
            return failed(error, started, begun, attempt, self._clock.now(), cancelled=subject.cancelled)
        return Outcome(
            kind="succeeded",
            started=started,
            seconds=time.perf_counter() - begun,
            output=normalise(result, self._capture.take()),
            is_json=is_json(result),
        )

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
            # Not `self._loop.run`, which minds SIGINT too: a quarter of the cost, and workers mind their signals.
            running = coroutine if limit is None else within(coroutine, limit)
            return loop.run_until_complete(loop.create_task(running, context=copy_context()))
        except Interrupt:
            self._close_loop()  # interrupted at an unknown point: its state cannot be trusted
            raise

    def _close_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _wake(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop that waits for events run some code, in which an interrupt can arrive."""
    with suppress(RuntimeError):  # it is closed: what ran in it has ended
        loop.call_soon_threadsafe(lambda: None)


async def within(coroutine: Any, limit: float | None) -> Any:
    if limit is None:
        return await coroutine
    try:
        async with asyncio.timeout(limit) as deadline:
            return await coroutine
    except TimeoutError as error:
        if deadline.expired():
            raise DeadlineExceeded("the attempt ran past its timeout") from error
        raise


def to_context(attempt: Attempt, value: Any, link: Link) -> Context:
    """What the handler is told about the job."""
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
        deadline=time.monotonic() + attempt.timeout if attempt.timeout else None,
        trace=None if envelope.trace is UNSET else envelope.trace,
        link=link,
        breakers=attempt.handler.breakers,
    )


def only_in(pid: int) -> None:
    """A copy of this process that a handler made by fork ends here: it is not a second worker."""
    if os.getpid() != pid:
        os._exit(0)


def failed(error: BaseException, started: int, begun: float, attempt: Attempt, now: int, *, cancelled: bool) -> Outcome:
    """The outcome of an attempt that raised: what it asked for, or what went wrong.

    Once somebody wants its job cancelled, whatever it raises is the end that was wanted.
    """
    if cancelled or isinstance(error, Cancelled):
        return outcome_of("cancelled", started, begun, reason=Cancelled.reason)
    failure = from_exception(error, now, attempt.number)
    if isinstance(error, DeadlineExceeded):
        late = Failure(
            type="TimedOut",
            message=f"the attempt ran past its timeout of {attempt.timeout:g} s",
            at=now,
            attempt=attempt.number,
            place=failure.place,
            trace=failure.trace,
        )
        return outcome_of("timed_out", started, begun, failure=late)
    if isinstance(error, StopNow):
        return outcome_of("interrupted", started, begun, reason="interrupted")
    if isinstance(error, CircuitOpen) and error.key is not None:
        refusal = Refusal(error.key, "circuit_open", error.until)
        return outcome_of("postponed", started, begun, reason=refusal.reason, refusal=refusal)
    if isinstance(error, Cancel):
        return outcome_of("cancelled", started, begun, reason=carriable(str(error)))
    if isinstance(error, Refused):
        return outcome_of("unfit", started, begun, failure=failure, reason=error.reason)
    try:
        if isinstance(error, Retry):
            delay = None if error.delay is None else seconds_until(error.delay, now, "the delay of Retry")
            return outcome_of("retry", started, begun, failure=failure, delay=delay)
        if isinstance(error, Postpone):
            delay = seconds_until(error.until, now, "the time of Postpone")
            return outcome_of("postponed", started, begun, delay=delay, reason=carriable(str(error)))
    except InvalidJob as bad:
        return outcome_of("failed", started, begun, failure=from_exception(bad, now, attempt.number))
    return outcome_of("failed", started, begun, failure=failure)


def seconds_until(until: Duration | datetime, now: int, what: str) -> float:
    """How long a handler wants to wait, from what it said; what is past is at once."""
    if isinstance(until, datetime):
        return max(0.0, (to_microseconds(to_moment(until, what)) - now) / MICROSECOND)
    if isinstance(until, timedelta):
        until = until.total_seconds()
    return 0.0 if isinstance(until, (int, float)) and until < 0 else to_seconds(until, what)


def outcome_of(kind: Kind, started: int, begun: float, **facts: Any) -> Outcome:
    """An outcome whose attempt ends now."""
    return Outcome(kind=kind, started=started, seconds=time.perf_counter() - begun, **facts)
