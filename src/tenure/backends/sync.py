"""The `sync` backend: put runs the job here and now, through the same path as a worker.

Retries follow at once, because nobody waits: delays are not slept.
A job that does not succeed raises JobFailed in the caller. Nothing is stored.
"""

import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import Literal
from urllib.parse import SplitResult

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Park, Reaped, Verdict
from tenure.backends.opening import options
from tenure.clock import Clock
from tenure.errors import JobFailed

Run = Callable[[Lease], Verdict]
_MOST_RUNS = 10_000  # a handler that postpones for ever would otherwise never come back


class SyncBackend:
    """Needs somebody who can run a lease; the app gives itself with `runs_with`."""

    in_process: Literal[True] = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owner = f"sync-{secrets.token_hex(6)}"
        self._run: Run | None = None

    def runs_with(self, run: Run) -> None:
        self._run = run

    def put(self, messages: Sequence[Message]) -> list[str]:
        return [self._finish(message) for message in messages]

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """Nothing ever waits here."""
        return []

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def rouse(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        """Nobody waits here: a job that may not run now fails in the caller."""
        return {}

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        return list(leases)

    def reap(self, queues: Sequence[str]) -> list[Reaped]:
        return []

    def close(self) -> None:
        """Nothing was opened."""

    def _finish(self, message: Message) -> str:
        if self._run is None:
            raise JobFailed("the sync backend runs jobs through an app; open it with Tenure('sync://')")
        attempts = 0
        for fence in itertools.count(1):
            verdict = self._run(self._lease(message, attempts, fence))
            if isinstance(verdict, Ack):
                self.put(verdict.follow)
                return message.id
            if isinstance(verdict, (Abandon, Park)) or fence == _MOST_RUNS:
                self.put(verdict.follow if isinstance(verdict, Abandon) else ())
                raise JobFailed(_story(message, verdict))
            attempts += verdict.charge == "attempt"
        raise AssertionError  # itertools.count has no end

    def _lease(self, message: Message, attempts: int, fence: int) -> Lease:
        return Lease(
            id=message.id,
            queue=message.queue,
            body=message.body,
            owner=self._owner,
            fence=fence,
            attempts=attempts,
            crashes=0,
            suspect=False,
            priority=message.priority,
            due=self._clock.now(),
            token=None,
        )


def _story(message: Message, verdict: Abandon | Nack | Park) -> str:
    if isinstance(verdict, Park):
        return f"job {message.id} ({message.handler!r}) may not run now: {verdict.reason}, {verdict.key!r}"
    cause = f": {verdict.failure.type}: {verdict.failure.message}" if verdict.failure else ""
    return f"job {message.id} ({message.handler!r}) did not succeed, reason {verdict.reason!r}{cause}"


def open_url(parts: SplitResult, clock: Clock) -> SyncBackend:
    """For `sync://`."""
    options(parts, known={})
    return SyncBackend(clock)
