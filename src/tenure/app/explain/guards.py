"""The guards that hold a job back: which guard it is, which job holds it, since when, and how to free it by hand."""

from collections.abc import Iterator
from typing import NamedTuple

from tenure.app.explain.facts import ExplainFacts, Reason
from tenure.guards.guard import Refusal
from tenure.guards.states import Circuit, Claimed, Hold, Holder, Slots, State


def guard_reasons(facts: ExplainFacts) -> Iterator[Reason]:
    """One reason for each guard that refuses the job; the one that the job is parked for comes first."""
    job = facts.job
    refusals = list(_refusals(facts))
    refusals.sort(key=lambda each: each[0].key != job.waits_for)
    for refusal, state in refusals:
        yield _refused(facts, refusal, state)
    if job.waits_for and not any(refusal.key == job.waits_for for refusal, _ in refusals):
        what = text_of(job.waits_for).what
        yield Reason(code="waking", text=f"it waited for {what}, which is free now: a worker wakes it within seconds")


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
    holders = [hold for hold in _holders(state) if hold.until > facts.now]
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


def _holders(state: State | None) -> tuple[Hold, ...]:
    match state:
        case Slots(_, holds):
            return holds
        case Claimed(hold):
            return (hold,)
        case Circuit(_, _, probe) if probe is not None:
            return (probe,)
        case _:
            return ()


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
