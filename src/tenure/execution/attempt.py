"""Attempt: one run of one job; `Performer.perform` never raises, never sleeps and never retries."""

import asyncio
import logging
import time
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from tenure.clock import MICROSECOND, Clock, to_microseconds
from tenure.definition import context
from tenure.definition.context import Context
from tenure.definition.failure import Failure, from_exception
from tenure.definition.handler import Handler
from tenure.errors import Cancel, DeadlineExceeded, InvalidJob, Postpone, Retry, StopNow
from tenure.execution.capture import Capture
from tenure.execution.deadline import Deadline
from tenure.execution.outcome import Kind, Outcome, normalise
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


class Performer:
    """Runs attempts one after the other in the thread that entered it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._capture = Capture()
        self._loop: asyncio.Runner | None = None
        self._stack = ExitStack()
        self.deadline = Deadline()

    def __enter__(self) -> "Performer":
        self._stack.enter_context(self._capture.installed())
        self._stack.enter_context(self.deadline.installed())
        self._stack.callback(self._close_loop)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def perform(self, attempt: Attempt) -> Outcome:
        started, begun = self._clock.now(), time.perf_counter()
        try:
            value = attempt.handler.shape.unpack(attempt.envelope.payload)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            return _outcome("unfit", started, begun, failure=from_exception(error, started, attempt.number))
        subject = _context(attempt, value)
        token = context.enter(subject)
        try:
            if attempt.handler.make is None:
                return self._run(attempt, subject, value, started, begun)
            return self._run_with_hooks(attempt, subject, value, started, begun)
        finally:
            context.leave(token)

    def _run_with_hooks(self, attempt: Attempt, subject: Context, value: Any, started: int, begun: float) -> Outcome:
        """`before_run` may veto the call; `after_run` always sees the outcome and cannot change it."""
        assert attempt.handler.make is not None  # noqa: S101 - the caller asked
        instance = None
        try:
            instance = attempt.handler.make()
            _hook(instance, "before_run", subject)
        except Exception as error:
            outcome = _failed(error, started, begun, attempt, self._clock.now())
        else:
            outcome = self._run(attempt, subject, value, started, begun, instance)
        try:
            _hook(instance, "after_run", subject, outcome)
        except Exception:
            logger.exception("after_run of handler %r failed; the outcome stands", attempt.handler.key)
        return outcome

    def _run(
        self, attempt: Attempt, subject: Context, value: Any, started: int, begun: float, *instance: Any
    ) -> Outcome:
        limit = attempt.timeout
        self._capture.begin()
        try:
            if attempt.handler.is_async:
                result = self._await(attempt.handler.call(*instance, subject, value), limit)
            else:
                self.deadline.arm(limit)
                result = attempt.handler.call(*instance, subject, value)
            self.deadline.disarm(limit)
        except (Exception, DeadlineExceeded, StopNow, asyncio.CancelledError, SystemExit) as error:
            self.deadline.disarm(limit)
            self._capture.take()
            return _failed(error, started, begun, attempt, self._clock.now())
        return Outcome(
            kind="succeeded",
            started=started,
            seconds=time.perf_counter() - begun,
            output=normalise(result, self._capture.take()),
        )

    def _await(self, coroutine: Any, limit: float | None) -> Any:
        if self._loop is None:
            self._loop = asyncio.Runner()
        self.deadline.arm(limit + _COROUTINE_GRACE if limit else None)
        try:
            return self._loop.run(_within(coroutine, limit))
        except (DeadlineExceeded, StopNow):
            self._close_loop()  # interrupted at an unknown point: its state cannot be trusted
            raise

    def _close_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None


async def _within(coroutine: Any, limit: float | None) -> Any:
    try:
        async with asyncio.timeout(limit) as deadline:
            return await coroutine
    except TimeoutError as error:
        if deadline.expired():
            raise DeadlineExceeded("the attempt ran past its timeout") from error
        raise


def _context(attempt: Attempt, value: Any) -> Context:
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
    )


def _hook(instance: Any, name: str, *arguments: Any) -> None:
    hook = getattr(instance, name, None)
    if hook is not None:
        hook(*arguments)


def _failed(error: BaseException, started: int, begun: float, attempt: Attempt, now: int) -> Outcome:
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
        return _outcome("timed_out", started, begun, failure=late)
    if isinstance(error, StopNow):
        return _outcome("interrupted", started, begun, reason="interrupted")
    if isinstance(error, Retry):
        return _outcome("retry", started, begun, failure=failure, delay=error.delay)
    if isinstance(error, Cancel):
        return _outcome("cancelled", started, begun, reason=str(error))
    if isinstance(error, Postpone):
        try:
            return _outcome("postponed", started, begun, delay=seconds_until(error.until, now), reason=str(error))
        except InvalidJob as bad:
            return _outcome("failed", started, begun, failure=from_exception(bad, now, attempt.number))
    return _outcome("failed", started, begun, failure=failure)


def seconds_until(until: float | timedelta | datetime, now: int) -> float:
    """How long a handler wants to wait, from what it said."""
    if isinstance(until, timedelta):
        return max(0.0, until.total_seconds())
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise InvalidJob(f"Postpone needs a datetime with a time zone, got {until!r}")
        return max(0.0, (to_microseconds(until) - now) / MICROSECOND)
    return max(0.0, float(until))


def _outcome(kind: Kind, started: int, begun: float, **facts: Any) -> Outcome:
    return Outcome(kind=kind, started=started, seconds=time.perf_counter() - begun, **facts)
