"""Decides from the facts why a job does not run; pure functions.

For each guard that holds a job back: which guard it is, which job holds it, since when, and how to free it by hand.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import UNSET

from tenure.app.explain.facts import AttemptSummary, ExplainFacts, Explanation, Reason
from tenure.backends.ledger import TickRecord
from tenure.backends.messages import suspects_key
from tenure.backends.records import JobRecord
from tenure.clock import MICROSECOND
from tenure.definition.job import DEFAULT_MAX_CRASHES
from tenure.guards.guard import Refusal
from tenure.guards.states import Holder, State, holds_of, queue_rate_key
from tenure.wire.signing import kid_of


def explain(facts: ExplainFacts) -> Explanation:
    """The answer first, then all other reasons for which the job does not run."""
    job = facts.job
    if job.finished_at is not None:
        return Explanation(reasons=(end(job),), attempts=attempts(job))
    if job.state == "leased":
        return Explanation(reasons=tuple(_lease(facts)), attempts=attempts(job))
    first = {"delayed": (_delay,), "parked": (guard_reasons,)}.get(job.state, ())
    # A job that was leased, could not run and was delayed waits for a deploy, not for a time.
    deploy = (_not_deployed, _obstacle) if job.state == "delayed" and job.fence > job.attempts + job.crashes else ()
    usual = (_pause, _no_worker, _drain, _not_deployed, _obstacle, guard_reasons, _will_end, _waits_its_turn)
    checks = dict.fromkeys((*deploy, *first, *usual))
    return Explanation(reasons=tuple(each for check in checks for each in check(facts)), attempts=attempts(job))


def explain_tick(tick: TickRecord) -> Explanation:
    """The reason for a tick whose job does not exist, or not yet."""
    advice = f"`tenure cron history {tick.schedule}` shows the results of its ticks"
    if tick.state == "waiting":
        text = f"this tick of schedule {tick.schedule!r} {tick.why or 'waits for other ticks'}; it has no job yet"
        return Explanation(reasons=(Reason(code="dependency", text=text, since=tick.noted_at, advice=advice),))
    why = f": {tick.why}" if tick.why else ""
    text = f"this tick of schedule {tick.schedule!r} is {tick.state}{why}; it has no known job"
    return Explanation(reasons=(Reason(code=f"tick_{tick.state}", text=text, since=tick.noted_at, advice=advice),))


def _lease(facts: ExplainFacts) -> Iterator[Reason]:
    job = facts.job
    holder = facts.worker_of(job.id)
    if (job.lease_until or 0) <= facts.now:
        text = "its lease has expired: its worker no longer renews it"
        advice = f"a running worker makes it ready again; without workers, run `tenure reap {job.queue}`"
        yield Reason(code="lease_expired", text=text, since=job.lease_until, worker=holder, advice=advice)
    else:
        text = "it is running, or about to start" + (f", on worker {holder}" if holder else "")
        yield Reason(code="running", text=f"{text}; it is leased", until=job.lease_until, worker=holder)
        if holder is None and _may_be_orphan(facts):
            text = "no live worker reports it: if its worker has died, it becomes ready when its lease has expired"
            yield Reason(code="holder_unknown", text=text)
    if job.cancel_asked:
        yield Reason(
            code="asked_to_stop", text="it was cancelled: its worker interrupts it, or it ends when its lease expires"
        )


def _may_be_orphan(facts: ExplainFacts) -> bool:
    """Whether the worker of a leased job that no worker reports may be dead.

    A worker reports a new job only with its next heartbeat, but renews leases at half their length from the start.
    """
    overdue = (facts.job.lease_until or 0) - facts.now < facts.seconds * MICROSECOND / 3
    return facts.workers is not None and (overdue or not facts.listening)


def _delay(facts: ExplainFacts) -> Iterator[Reason]:
    job = facts.job
    if job.due_at <= facts.now:
        return  # it is due: the next worker that leases makes it ready
    again = "it failed and is tried again later" if job.attempts else "it was returned to the queue"
    text = "it is delayed" if job.fence == 0 else f"it is delayed: {again}"
    advice = f"`tenure jobs reschedule {job.id} --delay 0` starts it now"
    yield Reason(code="delayed", text=text, until=job.due_at, advice=advice)


def _pause(facts: ExplainFacts) -> Iterator[Reason]:
    if facts.paused is not None:
        why = f": {facts.paused.reason}" if facts.paused.reason else ""
        text, advice = f"queue {facts.job.queue!r} is paused{why}", f"`tenure queues resume {facts.job.queue}`"
        yield Reason(code="paused", text=text, since=facts.paused.since, advice=advice)


def _no_worker(facts: ExplainFacts) -> Iterator[Reason]:
    if facts.workers is not None and not facts.listening:
        others = ", ".join(sorted({queue for worker in facts.workers for queue in worker.queues}))
        known = f"live workers serve {others}" if others else "no worker is alive"
        text = f"no worker listens on queue {facts.job.queue!r}; {known}"
        yield Reason(code="no_worker", text=text, advice=f"start one with `tenure work {facts.job.queue}`")


def _drain(facts: ExplainFacts) -> Iterator[Reason]:
    """All listening workers drain: none of them leases the job."""
    listening = [worker.id for worker in facts.listening]
    if not listening or not all(id in facts.draining for id in listening):
        return
    last = max(listening, key=lambda id: facts.draining[id].since)
    since, reason = facts.draining[last].since, facts.draining[last].reason
    who = f"the only worker on queue {facts.job.queue!r}, {last}, is"
    if len(listening) > 1:
        who = f"all {len(listening)} workers on queue {facts.job.queue!r} are"
    text = f"{who} draining{f': {reason}' if reason else ''}"
    advice = f"`tenure workers resume {last}`, or start another with `tenure work {facts.job.queue}`"
    yield Reason(code="draining", text=text, since=since, worker=last, advice=advice)


def _not_deployed(facts: ExplainFacts) -> Iterator[Reason]:
    """The handler or key that no listening worker has."""
    listening, job = facts.listening, facts.job
    if listening and all(each.handlers and job.handler not in each.handlers for each in listening):
        text = f"handler {job.handler!r} is not deployed: no listening worker has it"
        yield Reason(code="not_deployed", text=text, advice="deploy the code that has it, or start its workers")
    kid = kid_of(job.body or b"")
    if kid and listening and all(each.kids and kid not in each.kids for each in listening):
        text = f"it was sealed with key {kid!r}, which no listening worker has"
        yield Reason(code="key_not_deployed", text=text, advice="put the key into TENURE_KEYS of every worker")


def _obstacle(facts: ExplainFacts) -> Iterator[Reason]:
    found = facts.obstacle
    if found is None:
        return
    if found.until:
        advice = (
            "deploy what is missing: workers try it every few seconds, and move it to the dead letters after that time"
        )
        yield Reason(code=found.code, text=f"{found.text}; it waits for a deploy", until=found.until, advice=advice)
    else:
        advice = "the first worker that leases it moves it to the dead letters"
        yield Reason(code=found.code, text=found.text, advice=advice)


def _will_end(facts: ExplainFacts) -> Iterator[Reason]:
    job, envelope = facts.job, facts.envelope
    if envelope is None:
        return
    if envelope.expires_at is not UNSET:
        expires = round(envelope.expires_at.timestamp() * 1_000_000)
        if expires <= max(facts.now, job.due_at if job.state == "delayed" else 0):
            text = "it will end as expired: it could start only"
            yield Reason(code="expires", text=text, until=expires)
    budget = DEFAULT_MAX_CRASHES if envelope.max_crashes is UNSET else envelope.max_crashes
    if job.crashes > budget:
        text = f"the process that ran it died {job.crashes} times: the next worker moves it to the dead letters"
        yield Reason(code="crash_loop", text=text)


def _waits_its_turn(facts: ExplainFacts) -> Iterator[Reason]:
    """The reason of a job that could run: other jobs come first, or all workers are busy."""
    job, listening = facts.job, facts.listening
    if job.state not in ("ready", "delayed") or (job.state == "delayed" and job.due_at > facts.now):
        return
    if facts.ahead is None:
        text = "it waits for its turn"
    elif facts.ahead >= facts.max_read:
        text = f"it waits for its turn: {facts.max_read} or more jobs run before it"
    else:
        before = "one job of its queue runs" if facts.ahead == 1 else f"{facts.ahead} jobs of its queue run"
        text = f"{before} before it" if facts.ahead else "it is the next job of its queue"
    if listening:
        slots, held = sum(each.concurrency for each in listening), sum(len(each.jobs) for each in listening)
        text += f"; listening workers: {len(listening)}, with {held} jobs in {slots} slots"
    yield Reason(code="turn", text=text)


# What each reason of a dead letter means, and what to do before the job is tried again.
DEAD_REASONS = {
    "retries_exhausted": ("all allowed attempts failed", "fix the cause, then"),
    "gave_up": (
        "its error says that no retry can help: the handler raised Fail, or does not retry such errors",
        "fix the cause, then",
    ),
    "timeout": ("the last allowed attempt ran past its timeout", "raise the timeout or fix the job, then"),
    "crash_loop": (
        "the process that ran it died more often than max_crashes allows",
        "find what kills the process, then",
    ),
    "invalid_payload": ("its payload does not fit the handler", "fix the handler, or enqueue the job again;"),
    "forbidden": ("its queue, or the settings of a built-in handler, do not allow it", "allow it, then"),
    "malformed": ("its bytes are not an envelope", "another program put it there;"),
    "bad_signature": ("its signature is wrong, or is for another queue or id", "it was forged or moved;"),
    "wrong_audience": ("it was sealed for another audience", "see the setting audience;"),
    "out_of_scope": ("its key may not sign for its queue, handler or guards", "see the setting scopes;"),
    "unknown_handler": ("no worker had its handler in time", "deploy the handler, then"),
    "unknown_key": ("no worker had its key in time", "add the key to the ring, then"),
    "unsupported_version": ("a newer release of Tenure made it", "upgrade the workers, then"),
    "unprocessable": ("a worker could not handle it or store its end", "see its failure, fix the cause, then"),
    "newer_payload": ("its payload is newer than every worker's handler", "deploy the newer handler, then"),
}


def end(job: JobRecord) -> Reason:
    """The reason of a job that has ended."""
    since = job.finished_at
    if job.state != "dead":
        return Reason(code=job.state, text=f"it is {job.state}{f': {job.reason}' if job.reason else ''}", since=since)
    what, remedy = DEAD_REASONS.get(job.reason or "", (f"for the reason {job.reason!r}", "fix the cause, then"))
    text = f"it is dead: {what}" + (f" ({job.reason})" if job.reason in DEAD_REASONS else "")
    return Reason(code="dead", text=text, since=since, advice=f"{remedy} `tenure dead replay {job.id}`")


def attempts(job: JobRecord) -> tuple[AttemptSummary, ...]:
    """The stored attempts: the newest failures, and the attempt that succeeded."""
    failed = tuple(AttemptSummary(number=each.attempt, failure=each, run=each.run) for each in job.failures)
    last = job.failures[-1].run if job.failures else None
    if job.run is None or job.run == last:
        return failed
    return (*failed, AttemptSummary(number=job.attempts + 1, run=job.run))


def guard_reasons(facts: ExplainFacts) -> Iterator[Reason]:
    """One reason for each guard that refuses the job; the one that the job is parked for comes first."""
    job = facts.job
    if job.waits_for == suspects_key(job.queue):
        yield Reason(
            code="suspect",
            text="the last workers that had it vanished, one after the other: it runs alone next",
            advice="each worker of its queue starts a process for that within seconds",
        )
        return
    refusals = list(_refusals(facts))
    refusals.sort(key=lambda each: each[0].key != job.waits_for)
    for refusal, state in refusals:
        yield _refused(facts, refusal, state)
    if job.waits_for and not any(refusal.key == job.waits_for for refusal, _ in refusals):
        what = text_of(job.waits_for).what
        text = "which is free now: a worker wakes it within seconds"
        has_rate = facts.envelope is None or any(guard.key == job.waits_for for guard, _ in facts.guards)
        if job.waits_for == queue_rate_key(job.queue) and not has_rate:
            text = "which is no longer set: the next worker that starts wakes it at once"
        yield Reason(code="waking", text=f"it waited for {what}, {text}")


def _refusals(facts: ExplainFacts) -> Iterator[tuple[Refusal, State | None]]:
    for guard, state in facts.guards:
        taken = guard.take(state, Holder(facts.job.id, facts.job.fence + 1, facts.seconds), facts.now)
        if isinstance(taken, Refusal):
            yield taken, state


def _refused(facts: ExplainFacts, refusal: Refusal, state: State | None) -> Reason:
    what, frees = text_of(refusal.key)
    if refusal.reason == "done":
        text = f"job {refusal.first} is already done under {what}: this job will be skipped"
        return Reason(code="done_before", text=text, job=refusal.first, advice=f"to run it anyway: {frees}")
    if refusal.reason == "rate_limited":
        return Reason(code="rate_limited", text=f"{what} is used up", until=refusal.until, advice=f"or {frees}")
    holders = [hold for hold in holds_of(state) if hold.until > facts.now]
    holder = min(holders, key=lambda hold: hold.since, default=None)
    if refusal.reason == "circuit_open" and holder is None:
        text, advice = f"{what} is open after failures in a row", f"then one job tries; {frees} closes it now"
        return Reason(code="circuit_open", text=text, until=refusal.until, advice=advice)
    worker = facts.worker_of(holder.id) if holder else None
    holder_name = f"job {holder.id}{f' on worker {worker}' if worker else ''}" if holder else "another job"
    held = "is probed by" if refusal.reason == "circuit_open" else "is held by"
    if len(holders) > 1:
        held = f"is not free: all {len(holders)} are held, the oldest by"
    return Reason(
        code={"busy": "locked", "claimed": "claimed", "circuit_open": "circuit_open"}[refusal.reason],
        text=f"{what} {held} {holder_name}",
        since=(holder.since or None) if holder else None,
        job=holder.id if holder else None,
        worker=worker,
        advice=f"it is woken when that job ends; {frees} frees it at once, also while that job runs",
    )


class GuardText(NamedTuple):
    """`what` a job waits for, and the call that `frees` it, also while another job holds it."""

    what: str
    frees: str


_KINDS = {
    "once:": GuardText("the idempotency key {}", "app.forget({})"),
    "lock:": GuardText("the single-instance lock {}", "app.guards.unlock({})"),
    "most:handler:": GuardText("a slot of handler {}", "app.guards.free({})"),
    "most:key:": GuardText("a slot of key {}", 'app.guards.free("", {})'),
    "rate:handler:": GuardText("the rate of handler {}", "app.guards.rate(1, handler={}).reset()"),
    "rate:key:": GuardText("the rate of key {}", "app.guards.rate(1, key={}).reset()"),
    "rate:queue:": GuardText("the rate of queue {}", "app.guards.queue({}).reset()"),
    "breaker:": GuardText("the circuit breaker {}", "app.guards.breaker({}).reset()"),
}


def text_of(key: str) -> GuardText:
    """The texts for a key that `tenure.guards.states` made."""
    for kind, text in _KINDS.items():
        if key.startswith(kind):
            name = repr(key.removeprefix(kind))
            return GuardText(text.what.format(name), text.frees.format(name))
    return GuardText(f"the guard {key!r}", "")
