"""Pipeline: turns a lease into an attempt before the run, and an outcome into a verdict after it.

`admit` verifies and opens the message, finds its handler and takes its guards; a job that may not run gets its verdict
there. `conclude` decides what follows from an outcome and adds the jobs that the end of this job enqueues.
The decisions, `decide` and `refuse`, are pure functions at the end of the file.
"""

import logging
import random
from collections.abc import Sequence

from msgspec import UNSET, Struct, structs

from tenure.backends.messages import DEFAULT_SUSPECT_AFTER, Abandon, Ack, Charge, Lease, Nack, Park, Verdict
from tenure.clock import MICROSECOND, Clock
from tenure.definition.failure import Failure, from_exception, from_rejection
from tenure.definition.handler import Registry
from tenure.definition.job import DEFAULT_MAX_CRASHES
from tenure.definition.retry import Policy
from tenure.errors import (
    GAVE_UP,
    ForbiddenHandler,
    Malformed,
    MessageRejected,
    NewerPayload,
    UnknownHandler,
    UnknownKey,
    UnsupportedVersion,
)
from tenure.events import Run, Settlement, Status
from tenure.execution.attempt import Attempt, check_version
from tenure.execution.outcome import MAX_OUTPUT, Outcome, is_last_failure, truncate
from tenure.guards.store import MemoryStore
from tenure.redaction import one_line
from tenure.wire.envelope import Envelope, Follower, Wire
from tenure.worker.callbacks import CallbackMessages
from tenure.worker.guard_holder import SKIPPED, GuardHolder

MAY_BE_DEPLOYED = (UnknownHandler, UnknownKey, UnsupportedVersion, NewerPayload)  # a deploy may be in progress
_DEPLOY_POLL_SECONDS = 5.0
_WARNING_INTERVAL = 60 * MICROSECOND


class JobDefaults(Struct, frozen=True, kw_only=True):
    """What an app decides for jobs that do not say otherwise.

    A job with an unknown handler, key or version is dead after `unknown_timeout` seconds. `on_dead` is enqueued for
    every dead job. Output of handlers above `max_output` characters is cut. A job is a suspect after `suspect_after`
    workers or shared child processes vanished in a row while they ran it.
    """

    retry: Policy
    timeout: float | None = None
    unknown_timeout: float = 3600.0
    on_dead: Follower | None = None
    max_output: int = MAX_OUTPUT
    suspect_after: int = DEFAULT_SUSPECT_AFTER


class Pipeline:
    """Shared by the lanes of a worker."""

    def __init__(
        self, wire: Wire, registry: Registry, clock: Clock, defaults: JobDefaults, *, guards: GuardHolder | None = None
    ) -> None:
        self._wire = wire
        self._registry = registry
        self.clock = clock
        self._defaults = defaults
        self._callbacks = CallbackMessages(wire, clock, defaults.on_dead, defaults.max_output)
        self._warned: dict[tuple[str, str], int] = {}  # when the worker last warned, by queue and reason
        self.worker: str | None = None  # the name of the worker, set when there is one
        self.guards = guards or GuardHolder(MemoryStore(clock))

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of the handlers that are registered now."""
        return tuple(self._registry.keys())

    @property
    def kids(self) -> tuple[str, ...]:
        return tuple(self._wire.ring.kids)

    def admit(self, leases: Sequence[Lease]) -> tuple[list[Attempt], list[Verdict]]:
        """The attempts to run, and the verdicts on the jobs that may not run."""
        now = self.clock.now()
        attempts: list[Attempt] = []
        verdicts: list[Verdict] = []
        for lease in leases:
            try:
                admitted = self._open(lease, now)
            except Exception as error:  # an error over one message must not stop the others
                admitted = self.bury(lease, error)
            if isinstance(admitted, Attempt):
                attempts.append(admitted)
            else:
                verdicts.append(admitted)
        attempts, refused = self._take_guards(attempts, now)
        return attempts, verdicts + refused

    def conclude(self, attempt: Attempt, outcome: Outcome) -> Verdict:
        """What follows from the outcome; a job for which that cannot be said becomes a dead letter."""
        try:
            if outcome.refusal is not None:
                return self.guards.refuse(attempt.ticket, outcome.refusal, self.clock.now())
            if outcome.output is not None and len(outcome.output) > self._defaults.max_output:
                outcome = self._cut_output(outcome)
            run = run_of(attempt, outcome, self.worker)
            verdict = decide(attempt, outcome, self._defaults.retry, run, suspect_after=self._defaults.suspect_after)
            if attempt.envelope.callbacks is UNSET and type(verdict) is not Abandon:
                return verdict  # most jobs: their end enqueues nothing
            return self._callbacks.attach(verdict, attempt.envelope, outcome)
        except Exception as error:
            return self.bury(attempt.ticket, error)

    def bury(self, lease: Lease, error: Exception) -> Abandon:
        """The verdict on a job that this worker cannot handle; the jobs that it carries are not enqueued."""
        death = _reject(lease, error, self.clock.now())
        return structs.replace(death, follow=tuple(self._callbacks.death_notice(death, None)))

    def _cut_output(self, outcome: Outcome) -> Outcome:
        output = outcome.output or ""
        length = outcome.output_length or len(output)
        text = truncate(output, self._defaults.max_output, length)
        return structs.replace(outcome, output=text, output_length=length)

    def _take_guards(self, attempts: list[Attempt], now: int) -> tuple[list[Attempt], list[Verdict]]:
        """The attempts that hold their guards, and the verdicts on the others; one bad guard stops only its own job."""
        try:
            return self.guards.admit(attempts, now)
        except Exception as error:
            if len(attempts) == 1:
                return [], [self.bury(attempts[0].ticket, error)]
        answers = [self._take_guards([attempt], now) for attempt in attempts]
        return [one for admitted, _ in answers for one in admitted], [one for _, refused in answers for one in refused]

    def _open(self, lease: Lease, now: int) -> Attempt | Verdict:
        if lease.vanished >= self._defaults.suspect_after:  # a broker counts, and only now a worker sees the count
            return Nack(lease=lease, charge="suspect", reason="suspect")
        envelope: Envelope | None = None
        try:
            if lease.fault is not None:
                raise Malformed(lease.fault)
            envelope = self._wire.open(lease.body, lease.queue, lease.id)
            handler = self._registry.resolve(envelope.job, lease.queue)
            if envelope.version is not UNSET:
                check_version(handler, envelope)
        except MAY_BE_DEPLOYED as error:
            verdict = self._wait_for_deploy(lease, envelope, error, now)
            return self._callbacks.attach(verdict, envelope)
        except (ForbiddenHandler, MessageRejected) as error:
            return self._callbacks.attach(_reject(lease, error, now), envelope)
        if (lease.crashes or envelope.expires_at is not UNSET) and (refused := refuse(lease, envelope, now)):
            return self._callbacks.attach(refused, envelope)
        timeout = self._defaults.timeout if envelope.timeout is UNSET else envelope.timeout
        return Attempt(handler, envelope, lease.attempts + 1, lease.crashes, lease.fence, timeout, lease)

    def _wait_for_deploy(self, lease: Lease, envelope: Envelope | None, error: Exception, now: int) -> Verdict:
        """Postpone at no cost, because the next deploy may bring the handler or the key; but not for ever."""
        if envelope is not None and (refused := refuse(lease, envelope, now)):
            return refused
        if now - lease.due > self._defaults.unknown_timeout * MICROSECOND:
            return _reject(lease, error, now)
        self._warn(lease, error, now)
        delay = _DEPLOY_POLL_SECONDS * (1 + random.random())  # noqa: S311 - jitter
        return Nack(lease=lease, delay=delay, reason=reason_of(error), inconclusive=True)

    def _warn(self, lease: Lease, error: Exception, now: int) -> None:
        """Say that a job cannot run here; at most once a minute for each queue and reason."""
        reason = reason_of(error)
        if now - self._warned.get((lease.queue, reason), -_WARNING_INTERVAL) < _WARNING_INTERVAL:
            return
        self._warned[lease.queue, reason] = now
        logger.warning(
            "job %s on queue %r cannot run in this worker and waits for another one, up to %g s in all (%s): %s",
            one_line(lease.id), lease.queue, self._defaults.unknown_timeout, reason, one_line(str(error)),
            extra={"job": lease.id, "queue": lease.queue, "reason": reason},
        )  # fmt: skip


def _reject(lease: Lease, error: Exception, now: int) -> Abandon:
    record = from_rejection if isinstance(error, (MessageRejected, ForbiddenHandler)) else from_exception
    return Abandon(lease=lease, reason=reason_of(error), failure=record(error, now, lease.attempts + 1))


def reason_of(error: Exception) -> str:
    """The reason code that is stored with a job that may not run because of this error."""
    if isinstance(error, MessageRejected):
        return error.reason
    if isinstance(error, ForbiddenHandler):
        return "forbidden"
    return "unknown_handler" if isinstance(error, UnknownHandler) else "unprocessable"


logger = logging.getLogger(__name__)

REJECTED = frozenset(
    {"malformed", "bad_signature", "unknown_key", "unsupported_version", "forbidden", "invalid_payload"}
    | {"out_of_scope", "wrong_audience"}
)
REASONS = REJECTED | {
    *(GAVE_UP, "retries_exhausted", "timeout", "crash_loop"),
    *("unknown_handler", "newer_payload", "unprocessable"),
}
UNSTARTED = "unstarted"


def decide(
    attempt: Attempt,
    outcome: Outcome,
    default: Policy,
    run: Run | None = None,
    *,
    suspect_after: int = DEFAULT_SUSPECT_AFTER,
) -> Verdict:
    """Done, run again, or dead: the only place that decides it; `run` is stored with the verdict."""
    if outcome.kind == "succeeded":
        return Ack(lease=attempt.ticket, seconds=outcome.seconds, output=outcome.output, run=run)
    if run and outcome.failure:
        outcome = structs.replace(outcome, failure=structs.replace(outcome.failure, run=run))
    return structs.replace(_decide_unsuccessful(attempt, outcome, default, suspect_after), run=run)


def run_of(attempt: Attempt, outcome: Outcome, worker: str | None) -> Run:
    """What is stored about an attempt. The wait is known only for the first lease: later ones include delays."""
    lease: Lease = attempt.ticket
    wait = max(0, outcome.started - lease.due) / MICROSECOND if lease.fence == 1 else None
    return Run(
        attempt.envelope.job,
        outcome.started,
        outcome.seconds,
        wait,
        outcome.cpu,
        outcome.memory,
        worker,
        outcome.is_json,
        outcome.output_length,
        len(lease.body),
    )


def _decide_unsuccessful(
    attempt: Attempt, outcome: Outcome, default: Policy, suspect_after: int
) -> Ack | Nack | Abandon:
    lease: Lease = attempt.ticket
    match outcome.kind:
        case "cancelled":
            return Ack(lease=lease, state="cancelled", seconds=outcome.seconds, reason=outcome.reason)
        case "postponed":
            return Nack(lease=lease, delay=outcome.delay or 0.0, reason=outcome.reason)
        case "interrupted" | "neighbour":
            return Nack(lease=lease, reason=outcome.reason, inconclusive=True)
        case "vanished":
            charge: Charge = "suspect" if lease.vanished + 1 >= suspect_after else "vanished"
            return Nack(lease=lease, charge=charge, failure=outcome.failure, reason=outcome.reason)
        case "crashed":
            return _crashed(attempt, lease, outcome, default)
        case "unfit":
            return Abandon(lease=lease, reason=outcome.reason or "invalid_payload", failure=outcome.failure)
    if is_last_failure(outcome, lease.attempts, attempt.envelope.max_retries):
        said = outcome.reason if outcome.kind == "failed" else None
        reason = said or ("timeout" if outcome.kind == "timed_out" else "retries_exhausted")
        return Abandon(lease=lease, reason=reason, charge="attempt", failure=outcome.failure)
    delay = outcome.delay
    if delay is None:
        delay = policy_for(attempt, default).delay(lease.attempts + 1)
    return Nack(lease=lease, delay=delay, charge="attempt", failure=outcome.failure, reason=outcome.kind)


def _crashed(attempt: Attempt, lease: Lease, outcome: Outcome, default: Policy) -> Nack | Abandon:
    """After the first crash the job runs again at once, after later ones with backoff, up to `max_crashes`."""
    if lease.crashes >= _crash_budget(attempt.envelope):
        return Abandon(lease=lease, reason="crash_loop", charge="crash", failure=outcome.failure)
    delay = policy_for(attempt, default).delay(lease.crashes) if lease.crashes else 0.0
    return Nack(lease=lease, delay=delay, charge="crash", failure=outcome.failure, reason=outcome.reason)


def _crash_budget(envelope: Envelope) -> int:
    return DEFAULT_MAX_CRASHES if envelope.max_crashes is UNSET else envelope.max_crashes


def policy_for(attempt: Attempt, default: Policy) -> Policy:
    """The job's own policy, else its handler's, else the app's."""
    backoff = attempt.envelope.backoff
    return backoff if backoff is not UNSET else attempt.handler.retry or default


def refuse(lease: Lease, envelope: Envelope, now: int) -> Verdict | None:
    """A verdict for a message that is valid but may not run any more; None when it may run."""
    if lease.crashes > _crash_budget(envelope):
        message = f"{lease.crashes} workers vanished while they ran this job and nothing else"
        evidence = Failure(type="CrashLoop", message=message, at=now, attempt=lease.attempts + 1)
        return Abandon(lease=lease, reason="crash_loop", failure=evidence)
    if envelope.expires_at is not UNSET and envelope.expires_at.timestamp() * 1_000_000 <= now:
        return Ack(lease=lease, state="expired", reason=f"expired at {envelope.expires_at.isoformat()}")
    return None


_STATUS_OF_END = {"done": Status.ACKED, "cancelled": Status.CANCELLED, "expired": Status.EXPIRED}


def status_of(verdict: Verdict) -> Status:
    if isinstance(verdict, Ack):
        if verdict.reason is not None and verdict.reason.startswith(SKIPPED):
            return Status.SKIPPED_IDEMPOTENT
        return _STATUS_OF_END[verdict.state]
    if isinstance(verdict, Park):
        return Status.POSTPONED
    if isinstance(verdict, Nack):
        return Status.REQUEUED if verdict.charge in ("attempt", "crash") else Status.POSTPONED
    return Status.REJECTED if verdict.reason in REJECTED else Status.DEAD_LETTERED


def settlements_of(verdicts: Sequence[Verdict]) -> tuple[Settlement, ...]:
    """What listeners receive about these verdicts; no call for a plain success, which would take 0.1 of 0.2 µs."""
    acked = Status.ACKED
    return tuple(
        [
            Settlement((lease := verdict.lease).id, lease.queue, acked, lease.attempts + 1, None, False, verdict.run)
            if type(verdict) is Ack and verdict.state == "done" and verdict.reason is None
            else settlement(verdict)
            for verdict in verdicts
        ]
    )


def settlement(verdict: Verdict) -> Settlement:
    """What listeners receive about a verdict."""
    lease = verdict.lease
    if isinstance(verdict, Ack):
        return Settlement(
            lease.id, lease.queue, status_of(verdict), lease.attempts + 1, verdict.reason, False, verdict.run
        )
    charge = verdict.charge if isinstance(verdict, (Nack, Abandon)) else None
    run, failure = (None, None) if isinstance(verdict, Park) else (verdict.run, verdict.failure)
    error = f"{failure.type}: {failure.message}" if failure else None
    return Settlement(
        lease.id,
        lease.queue,
        status_of(verdict),
        lease.attempts + 1,
        verdict.reason,
        charge in ("attempt", "crash"),
        run,
        error,
        crashed=charge == "crash",
        place=failure.place if failure else None,
    )
