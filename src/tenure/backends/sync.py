"""SyncBackend: `put` runs the job at once in the caller's process, through the same code as a worker.

Retries follow immediately, without their delays. A job that does not succeed raises JobFailed in the caller. Nothing is
stored.
"""

import itertools
import secrets
from collections.abc import Callable, Sequence
from urllib.parse import SplitResult

from tenure.backends.contract import Backend
from tenure.backends.messages import (
    DEFAULT_SUSPECT_AFTER,
    Abandon,
    Ack,
    Lease,
    Message,
    Nack,
    Park,
    ReapedLease,
    Verdict,
)
from tenure.backends.url import options
from tenure.clock import Clock
from tenure.errors import BackendError, JobFailed

RunLease = Callable[[Lease], Verdict]
_MAX_RUNS = 10_000  # a handler that always postpones would otherwise never return


class SyncBackend(Backend):
    """Needs a function that runs a lease; the app sets it with `runs_with`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owner = f"sync-{secrets.token_hex(6)}"
        self._run: RunLease | None = None
        self.in_process = self.runs_on_put = True
        self.parking = NoWaiting()

    def runs_with(self, run: RunLease) -> None:
        self._run = run

    def put(self, messages: Sequence[Message]) -> list[str]:
        return [self._finish(message) for message in messages]

    def lease(self, queues: Sequence[str], *, limit: int, seconds: float, wait: float = 0.0) -> list[Lease]:
        """No job waits in this backend."""
        return []

    def ack(self, verdicts: Sequence[Ack]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def nack(self, verdicts: Sequence[Nack]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def abandon(self, verdicts: Sequence[Abandon]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def renew(self, leases: Sequence[Lease], *, seconds: float) -> list[Lease]:
        return list(leases)

    def reap(self, queues: Sequence[str], *, suspect_after: int = DEFAULT_SUSPECT_AFTER) -> list[ReapedLease]:
        return []

    def has_suspects(self, queues: Sequence[str]) -> bool:
        return False

    def lease_suspect(self, queues: Sequence[str], *, seconds: float) -> list[Lease]:
        return []

    def close(self) -> None:
        """Nothing to close."""

    def run(self, message: Message) -> Verdict:
        """Run a job until it ends, or may not run now; the last verdict. The jobs that follow it are not put."""
        if self._run is None:
            raise BackendError("the sync backend runs jobs through an app; open it with Tenure('sync://')")
        attempts = 0
        for fence in itertools.count(1):
            verdict = self._run(self._lease(message, attempts, fence))
            if not isinstance(verdict, Nack) or fence == _MAX_RUNS:
                return verdict
            attempts += verdict.charge == "attempt"
        raise AssertionError  # itertools.count has no end

    def _finish(self, message: Message) -> str:
        verdict = self.run(message)
        if isinstance(verdict, (Ack, Abandon)):
            self.put(verdict.follow)
        if not isinstance(verdict, Ack):
            raise _failed(message, verdict)
        return message.id

    def _lease(self, message: Message, attempts: int, fence: int) -> Lease:
        return Lease(
            id=message.id,
            queue=message.queue,
            body=message.body,
            owner=self._owner,
            fence=fence,
            attempts=attempts,
            crashes=0,
            vanished=0,
            priority=message.priority,
            due=self._clock.now(),
            token=None,
        )


class NoWaiting:
    """Jobs do not wait in this backend: a job that may not run now fails in the caller."""

    def park(self, verdicts: Sequence[Park]) -> list[Lease]:
        return [verdict.lease for verdict in verdicts]

    def wake(self, keys: Sequence[str] | None, limit: int) -> dict[str, float]:
        return {}

    def waiters(self, keys: Sequence[str], limit: int) -> dict[str, dict[str, int]]:
        return {}


def _failed(message: Message, verdict: Abandon | Nack | Park) -> JobFailed:
    job = f"job {message.id} ({message.handler!r})"
    if isinstance(verdict, Park):
        text = f"{job} may not run now: {verdict.reason}, {verdict.key!r}"
        return JobFailed(text, id=message.id, state="parked", reason=verdict.reason, attempts=verdict.lease.attempts)
    failure = verdict.failure
    cause = f": {failure.type}: {failure.message}" if failure else ""
    return JobFailed(
        f"{job} did not succeed, reason {verdict.reason!r}{cause}",
        id=message.id,
        state="dead" if isinstance(verdict, Abandon) else "ready",
        reason=verdict.reason,
        error_type=None if failure is None else failure.type,
        error=None if failure is None else failure.message,
        traceback=None if failure is None else failure.trace,
        attempts=verdict.lease.attempts + (verdict.charge == "attempt"),
    )


def open_url(parts: SplitResult, clock: Clock) -> SyncBackend:
    """Opens `sync://`."""
    options(parts, known={})
    return SyncBackend(clock)
