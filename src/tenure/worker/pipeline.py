"""Pipeline: a lease in, an attempt out; an outcome in, a verdict out; what may not run gets its verdict at the door."""

import random
from collections.abc import Sequence

from msgspec import UNSET, Struct, structs

from tenure.backends.contract import Abandon, Lease, Nack, Verdict
from tenure.clock import MICROSECOND, Clock
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
from tenure.execution.outcome import MAX_OUTPUT, Outcome, cut
from tenure.guards.memory import MemoryStore
from tenure.wire.envelope import Envelope, Follower, Wire
from tenure.worker.following import Following
from tenure.worker.verdict import decide, refuse, run_of
from tenure.worker.warden import Warden

WAITED_FOR = (UnknownHandler, UnknownKey, UnsupportedVersion, NewerPayload)  # a deploy may be under way
_LOOK_AGAIN = 5.0


class Defaults(Struct, frozen=True, kw_only=True):
    """What an app decides for jobs that do not say otherwise.

    `patience` is how long a deploy may take until the unknown is dead; `on_dead` follows every death.
    `max_output` is how many characters are kept of what a handler returns and prints.
    """

    retry: RetryPolicy
    timeout: float | None = None
    patience: float = 3600.0
    on_dead: Follower | None = None
    max_output: int = MAX_OUTPUT


class Pipeline:
    """Verifies, opens and resolves."""

    def __init__(
        self, wire: Wire, registry: Registry, clock: Clock, defaults: Defaults, *, warden: Warden | None = None
    ) -> None:
        self._wire = wire
        self._registry = registry
        self.clock = clock
        self._defaults = defaults
        self._following = Following(wire, clock, defaults.on_dead)
        self.worker: str | None = None  # whose attempts these are; known once there is one
        self.warden = warden or Warden(MemoryStore(clock))

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of those that are registered by now."""
        return tuple(self._registry.keys())

    @property
    def kids(self) -> tuple[str, ...]:
        return tuple(self._wire.ring.kids)

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
        if outcome.refusal is not None:
            return self.warden.refuse(attempt.ticket, outcome.refusal, self.clock.now())
        if outcome.output is not None and len(outcome.output) > self._defaults.max_output:
            outcome = structs.replace(outcome, output=cut(outcome.output, self._defaults.max_output))
        run = run_of(attempt, outcome, self.worker)
        return self._following.attach(decide(attempt, outcome, self._defaults.retry, run), attempt.envelope)

    def _admit(self, lease: Lease, now: int) -> Attempt | Verdict:
        envelope: Envelope | None = None
        try:
            envelope = self._wire.open(lease.body, lease.queue, lease.id)
            handler = self._registry.resolve(envelope.job, lease.queue)
            check_version(handler, envelope)
        except WAITED_FOR as error:
            verdict = self._wait_for_deploy(lease, envelope, error, now)
            return self._following.attach(verdict, envelope)
        except (ForbiddenHandler, MessageRejected) as error:
            return self._following.attach(_reject(lease, error, now), envelope)
        refused = refuse(lease, envelope, now)
        if refused is not None:
            return self._following.attach(refused, envelope)
        timeout = self._defaults.timeout if envelope.timeout is UNSET else envelope.timeout
        return Attempt(handler, envelope, lease.attempts + 1, lease.crashes, lease.fence, timeout, lease)

    def _wait_for_deploy(self, lease: Lease, envelope: Envelope | None, error: Exception, now: int) -> Verdict:
        """A handler or key we do not know may be on its way to us: later, at no cost, but not for ever."""
        if envelope is not None and (refused := refuse(lease, envelope, now)):
            return refused
        if now - lease.due > self._defaults.patience * MICROSECOND:
            return _reject(lease, error, now)
        pause = _LOOK_AGAIN * (1 + random.random())  # noqa: S311 - jitter
        return Nack(lease=lease, delay=pause, reason=reason_of(error))


def _reject(lease: Lease, error: Exception, now: int) -> Verdict:
    return Abandon(lease=lease, reason=reason_of(error), failure=from_exception(error, now, lease.attempts + 1))


def reason_of(error: Exception) -> str:
    """The code that is kept with a job which may not run for this."""
    if isinstance(error, MessageRejected):
        return error.reason
    return "forbidden" if isinstance(error, ForbiddenHandler) else "unknown_handler"
