"""ClaimedJob: a job that somebody holds who runs it in a loop of their own."""

import asyncio
import time
from datetime import datetime
from typing import Any

from msgspec import UNSET, structs

from tenure.backends.contract import Lease
from tenure.clock import to_datetime
from tenure.definition import context
from tenure.definition.failure import from_exception
from tenure.definition.link import LocalLink
from tenure.execution.attempt import Attempt, to_context
from tenure.execution.outcome import Outcome, is_json, normalise


class ClaimedJob:
    """What `next_job` returns: `task` is the handler's key, `data` the payload in its declared type."""

    def __init__(self, attempt: Attempt, data: Any, worker: str, now: int) -> None:
        envelope = attempt.envelope
        self.attempt, self.worker, self.lease = attempt, worker, _lease(attempt)
        self.id, self.queue, self.task, self.name = self.lease.id, self.lease.queue, envelope.job, envelope.name
        self.attempts, self.max_retries = self.lease.attempts, envelope.max_retries
        self.meta: dict[str, Any] = {} if envelope.meta is UNSET else envelope.meta
        self.data = data
        self._started, self._begun = now, time.perf_counter()

    @property
    def may_retry(self) -> bool:
        """Whether its budget allows another attempt after this one."""
        return self.attempts < self.max_retries

    @property
    def available_at(self) -> datetime:
        return to_datetime(self.lease.due)

    def run(self) -> Any:
        """Call the handler here and now; what it raises is yours to settle."""
        handler = self.attempt.handler
        subject = to_context(self.attempt, self.data, LocalLink())
        instance = () if handler.make is None else (handler.make(),)
        token = context.enter(subject)
        try:
            result = handler.call(*instance, subject, self.data)
            return asyncio.run(result) if handler.is_async else result
        finally:
            context.leave(token)

    def succeeded(self, result: Any) -> Outcome:
        return Outcome(
            kind="succeeded",
            started=self._started,
            seconds=self._seconds(),
            output=normalise(result, ""),
            is_json=is_json(result),
        )

    def failed(self, error: BaseException | None, now: int) -> Outcome:
        failure = None if error is None else from_exception(error, now, self.attempt.number)
        return Outcome(kind="failed", started=self._started, seconds=self._seconds(), failure=failure)

    def with_budget(self, retries: int) -> Attempt:
        """The attempt as if its job had so many retries."""
        return structs.replace(self.attempt, envelope=structs.replace(self.attempt.envelope, max_retries=retries))

    def _seconds(self) -> float:
        return time.perf_counter() - self._begun


def _lease(attempt: Attempt) -> Lease:
    lease: Lease = attempt.ticket
    return lease
