"""Why a job is not running: the decision, a pure function of facts."""

from collections.abc import Iterator

from msgspec import UNSET

from tenure.app.explain.facts import AttemptSummary, ExplainFacts, Explanation, Reason
from tenure.app.explain.guards import guard_reasons
from tenure.backends.ledger import TickRecord
from tenure.backends.records import JobRecord
from tenure.definition.job import DEFAULT_MAX_CRASHES
from tenure.wire.signing import kid_of


def explain(facts: ExplainFacts) -> Explanation:
    """The answer first, then whatever else keeps the job from running."""
    job = facts.job
    if job.finished_at is not None:
        return Explanation(reasons=(end(job),), attempts=attempts(job))
    if job.state == "leased":
        return Explanation(reasons=tuple(_lease(facts)), attempts=attempts(job))
    first = {"delayed": (_delay,), "parked": (guard_reasons,)}.get(job.state, ())
    # A job that was leased, could not run and was put off waits for what it lacks, not for a time.
    deploy = (_unable, _obstacle) if job.state == "delayed" and job.fence > job.attempts + job.crashes else ()
    checks = dict.fromkeys((*deploy, *first, _pause, _no_worker, _unable, _obstacle, guard_reasons, _will_end, _turn))
    return Explanation(reasons=tuple(each for check in checks for each in check(facts)), attempts=attempts(job))


def explain_tick(tick: TickRecord) -> Explanation:
    """A tick of a schedule whose job is not there, or not yet."""
    advice = f"`tenure cron history {tick.schedule}` shows what became of its ticks"
    if tick.state == "waiting":
        text = f"this tick of schedule {tick.schedule!r} {tick.why or 'waits for others'}, and its job is not there yet"
        return Explanation(reasons=(Reason(code="dependency", text=text, since=tick.noted_at, advice=advice),))
    why = f": {tick.why}" if tick.why else ""
    text = f"this tick of schedule {tick.schedule!r} is {tick.state}{why}; a job of it is not known"
    return Explanation(reasons=(Reason(code=f"tick_{tick.state}", text=text, since=tick.noted_at, advice=advice),))


def _lease(facts: ExplainFacts) -> Iterator[Reason]:
    job = facts.job
    holder = facts.worker_of(job.id)
    if (job.lease_until or 0) <= facts.now:
        text = "its lease ran out: the worker that had it has vanished"
        advice = f"a worker gives it back by itself; without any, `tenure reap {job.queue}` does"
        yield Reason(code="lease_expired", text=text, since=job.lease_until, worker=holder, advice=advice)
    else:
        text = "it is running, or about to start" + (f", on worker {holder}" if holder else "")
        yield Reason(code="running", text=f"{text}; its lease is kept", until=job.lease_until, worker=holder)
        if facts.workers is not None and holder is None:
            text = "no worker that is alive says that it has it; if none does, it comes back when the lease runs out"
            yield Reason(code="holder_unknown", text=text, until=job.lease_until)
    if job.cancel_asked:
        yield Reason(
            code="asked_to_stop", text="somebody wants it cancelled: it is interrupted, or ends with its lease"
        )


def _delay(facts: ExplainFacts) -> Iterator[Reason]:
    job = facts.job
    if job.due_at <= facts.now:
        return  # ready in all but name: the next worker that looks promotes it
    again = "it failed and is tried again later" if job.attempts else "it was handed back and waits"
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
        known = f"those that are alive serve {others}" if others else "none is alive"
        text = f"no worker listens on queue {facts.job.queue!r}; {known}"
        yield Reason(code="no_worker", text=text, advice=f"start one with `tenure work {facts.job.queue}`")


def _unable(facts: ExplainFacts) -> Iterator[Reason]:
    """What none of the workers that listen has."""
    listening, job = facts.listening, facts.job
    if listening and all(each.handlers and job.handler not in each.handlers for each in listening):
        text = f"handler {job.handler!r} is not deployed: no worker that listens has it"
        yield Reason(code="not_deployed", text=text, advice="deploy the code that has it, or start its workers")
    kid = kid_of(job.body or b"")
    if kid and listening and all(each.kids and kid not in each.kids for each in listening):
        text = f"it was sealed with key {kid!r}, which no worker that listens has"
        yield Reason(code="key_not_deployed", text=text, advice="put the key into TENURE_KEYS of every worker")


def _obstacle(facts: ExplainFacts) -> Iterator[Reason]:
    found = facts.obstacle
    if found is None:
        return
    if found.until:
        advice = (
            "deploy what is missing: workers try it every few seconds, and move it to the dead letters after that time"
        )
        yield Reason(code=found.code, text=f"{found.text}; it waits for that", until=found.until, advice=advice)
    else:
        advice = "the first worker that takes it moves it to the dead letters"
        yield Reason(code=found.code, text=found.text, advice=advice)


def _will_end(facts: ExplainFacts) -> Iterator[Reason]:
    job, envelope = facts.job, facts.envelope
    if envelope is None:
        return
    if envelope.expires_at is not UNSET:
        expires = round(envelope.expires_at.timestamp() * 1_000_000)
        if expires <= max(facts.now, job.due_at if job.state == "delayed" else 0):
            text = "it will end as expired: it may start only"
            yield Reason(code="expires", text=text, until=expires)
    budget = DEFAULT_MAX_CRASHES if envelope.max_crashes is UNSET else envelope.max_crashes
    if job.crashes > budget:
        text = f"whoever ran it died, {job.crashes} times: the next worker moves it to the dead letters"
        yield Reason(code="crash_loop", text=text)


def _turn(facts: ExplainFacts) -> Iterator[Reason]:
    """A job that nothing keeps from running waits for those before it, or for a free place."""
    job, listening = facts.job, facts.listening
    if job.state not in ("ready", "delayed") or (job.state == "delayed" and job.due_at > facts.now):
        return
    if facts.ahead is None:
        text = "its turn has not come"
    elif facts.ahead >= facts.max_read:
        text = f"its turn has not come: {facts.max_read} jobs or more run before it"
    else:
        before = "one of its queue runs" if facts.ahead == 1 else f"{facts.ahead} of its queue run"
        text = f"{before} before it" if facts.ahead else "it is the next of its queue"
    if listening:
        places, held = sum(each.concurrency for each in listening), sum(len(each.jobs) for each in listening)
        text += f"; workers that listen: {len(listening)}, with {held} jobs in {places} places"
    yield Reason(code="turn", text=text)


# What each reason of a death means, and what somebody should do before the job is tried again.
DEATHS = {
    "retries_exhausted": ("every attempt that it was allowed failed", "mend the cause, then"),
    "timeout": ("the last attempt that it was allowed ran past its timeout", "give it more time, or mend it, then"),
    "crash_loop": ("whoever ran it died, more often than max_crashes allows", "find what kills its process, then"),
    "invalid_payload": ("its payload does not fit the handler", "mend the handler, or enqueue it anew;"),
    "forbidden": ("its queue, or the settings of a built-in handler, do not allow it", "allow it, then"),
    "malformed": ("its bytes are not an envelope", "somebody else put it there;"),
    "bad_signature": ("its signature is wrong, or is for another queue or id", "it was forged or moved;"),
    "wrong_audience": ("it was sealed for another audience", "see the setting audience;"),
    "out_of_scope": ("its key may not sign for its queue or handler", "see the setting scopes;"),
    "unknown_handler": ("no worker had its handler in time", "deploy the handler, then"),
    "unknown_key": ("no worker had its key in time", "put the key into the ring, then"),
    "unsupported_version": ("it was made by a newer release", "upgrade the workers, then"),
    "newer_payload": ("its payload is newer than every worker's handler", "deploy the newer handler, then"),
}


def end(job: JobRecord) -> Reason:
    """The answer for a job that has ended."""
    since = job.finished_at
    if job.state != "dead":
        return Reason(code=job.state, text=f"it is {job.state}{f': {job.reason}' if job.reason else ''}", since=since)
    what, first = DEATHS.get(job.reason or "", (f"for the reason {job.reason!r}", "mend the cause, then"))
    text = f"it is dead: {what}" + (f" ({job.reason})" if job.reason in DEATHS else "")
    return Reason(code="dead", text=text, since=since, advice=f"{first} `tenure dead replay {job.id}`")


def attempts(job: JobRecord) -> tuple[AttemptSummary, ...]:
    """Those that are kept: the newest failures, and the one that ended the job well."""
    failed = tuple(AttemptSummary(number=each.attempt, failure=each, run=each.run) for each in job.failures)
    last = job.failures[-1].run if job.failures else None
    if job.run is None or job.run == last:
        return failed
    return (*failed, AttemptSummary(number=job.attempts + 1, run=job.run))
