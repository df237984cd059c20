"""Pipeline: a lease in, an attempt out; an outcome in, a verdict out; what may not run gets its verdict at the door."""

import random
from collections.abc import Sequence

from msgspec import UNSET, structs

from tenure.backends.contract import Abandon, Ack, Lease, Message, Nack, Verdict
from tenure.clock import MICROSECOND, Clock, to_microseconds
from tenure.definition.failure import from_exception
from tenure.definition.registry import Registry
from tenure.definition.retry import RetryPolicy
from tenure.errors import (
    ForbiddenHandler,
    MessageRejected,
    NewerPayload,
    UnknownHandler,
    UnknownKey,
    UnsupportedVersion,
)
from tenure.execution.attempt import Attempt, check_version
from tenure.execution.outcome import Outcome
from tenure.guards.memory import MemoryStore
from tenure.wire.envelope import Envelope, Wire
from tenure.wire.followers import followers
from tenure.worker.verdict import decide, refuse
from tenure.worker.warden import Warden

_LOOK_AGAIN = 5.0


class Pipeline:
    """Verifies, opens and resolves; `patience` is how long a deploy may take until the unknown is dead."""

    def __init__(
        self,
        wire: Wire,
        registry: Registry,
        clock: Clock,
        retry: RetryPolicy,
        *,
        patience: float = 3600.0,
        default_timeout: float | None = None,
        warden: Warden | None = None,
    ) -> None:
        self._wire = wire
        self._registry = registry
        self.clock = clock
        self._retry = retry
        self._patience = patience
        self._default_timeout = default_timeout
        self.warden = warden or Warden(MemoryStore(clock))

    def admit(self, leases: Sequence[Lease]) -> tuple[list[Attempt], list[Verdict]]:
        """The attempts to run, and the verdicts on what may not."""
        now = self.clock.now()
        attempts: list[Attempt] = []
        verdicts: list[Verdict] = []
        for lease in leases:
            admitted = self._admit(lease, now)
            if isinstance(admitted, Attempt):
                attempts.append(admitted)
            else:
                verdicts.append(admitted)
        attempts, refused = self.warden.admit(attempts, now)
        return attempts, verdicts + refused

    def conclude(self, attempt: Attempt, outcome: Outcome) -> Verdict:
        return self._followed(decide(attempt, outcome, self._retry), attempt.envelope)

    def _admit(self, lease: Lease, now: int) -> Attempt | Verdict:
        try:
            envelope = self._wire.open(lease.body, lease.queue, lease.id)
            handler = self._registry.resolve(envelope.job, lease.queue)
            check_version(handler, envelope)
        except (UnknownHandler, UnknownKey, UnsupportedVersion, NewerPayload) as error:
            return self._wait_for_deploy(lease, error, now)
        except ForbiddenHandler as error:
            return self._reject(lease, "forbidden", error, now)
        except MessageRejected as error:
            return self._reject(lease, error.reason, error, now)
        verdict = refuse(lease, envelope, now)
        if verdict is not None:
            return self._followed(verdict, envelope)
        timeout = self._default_timeout if envelope.timeout is UNSET else envelope.timeout
        return Attempt(handler, envelope, lease.attempts + 1, lease.crashes, lease.fence, timeout, lease)

    def _followed(self, verdict: Verdict, envelope: Envelope) -> Verdict:
        """The verdict with the messages of the jobs that follow, if the job has ended and has any."""
        if envelope.callbacks is UNSET or isinstance(verdict, Nack):
            return verdict
        ending = verdict.state if isinstance(verdict, Ack) else "dead"
        now = self.clock.now()
        parent = {"parent": {"id": envelope.identifier, "state": ending}}
        follow = tuple(
            Message(
                id=id,
                queue=each.message.queue,
                body=self._wire.seal_follower(each, id, now, parent),
                handler=each.message.job,
                name=each.message.name,
                priority=each.message.priority,
                delay=each.delay,
                due=to_microseconds(each.message.schedule) if each.message.schedule else 0,
            )
            for id, each in followers(envelope, ending)
        )
        return structs.replace(verdict, follow=follow)

    def _wait_for_deploy(self, lease: Lease, error: Exception, now: int) -> Verdict:
        """A handler or key we do not know may be on its way to us: later, at no cost, but not for ever."""
        reason = error.reason if isinstance(error, MessageRejected) else "unknown_handler"
        if now - lease.due > self._patience * MICROSECOND:
            return self._reject(lease, reason, error, now)
        return Nack(lease=lease, delay=_LOOK_AGAIN * (1 + random.random()), reason=reason)  # noqa: S311 - jitter

    def _reject(self, lease: Lease, reason: str, error: Exception, now: int) -> Verdict:
        return Abandon(lease=lease, reason=reason, failure=from_exception(error, now, lease.attempts + 1))
