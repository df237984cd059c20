"""Why a job does not run, from facts alone."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tenure.app.explain.decide import DEAD_REASONS, explain, explain_tick, text_of
from tenure.app.explain.facts import ExplainFacts, Guarded, Obstacle
from tenure.backends.ledger import TickRecord
from tenure.backends.records import JobRecord, WorkerRecord
from tenure.definition.failure import Failure
from tenure.definition.job import Job
from tenure.events import Run
from tenure.guards import states
from tenure.guards.breaker import Breaker
from tenure.guards.concurrency_limit import ConcurrencyLimit
from tenure.guards.idempotency import Idempotency
from tenure.guards.rate_limit import Rate, RateLimit
from tenure.guards.states import Bucket, Circuit, Claimed, Done, Hold, Paused, Slots
from tenure.wire.envelope import Wire
from tenure.wire.signing import Ring, new_key
from tenure.worker.pipeline import REASONS

NOW = 1_000_000_000
LATER = NOW + 60_000_000
EARLIER = NOW - 60_000_000
HELD = Hold("other", 1, LATER, EARLIER)
LOCK = Guarded(ConcurrencyLimit(states.lock_key("report")), Slots(1, (HELD,)))
FREE = Guarded(ConcurrencyLimit(states.lock_key("report")), None)
CLAIM = Guarded(Idempotency(states.claim_key("order-7")), Claimed(HELD))
DONE = Guarded(Idempotency(states.claim_key("order-7")), Done("first"))
RATE = Guarded(RateLimit(states.queue_rate_key("mail"), Rate(60, 60)), Bucket(1_000_000, 1, NOW + 500_000))
OPEN = Guarded(Breaker(states.breaker_key("stripe")), Circuit(5, LATER, None))
PROBED = Guarded(Breaker(states.breaker_key("stripe")), Circuit(5, EARLIER, HELD))
WAITS = Obstacle("unknown_handler", "no handler is registered under 'greet'", LATER)
DIES = Obstacle("forbidden", "queue 'mail' does not allow handler 'greet'")


def record(state: str, **fields: object) -> JobRecord:
    usual = JobRecord(
        id="job", queue="mail", handler="greet", name=None, state=state, priority=5, attempts=0, crashes=0, fence=0,
        enqueued_at=EARLIER, due_at=EARLIER,
    )  # fmt: skip
    return structs.replace(usual, **fields)


def worker(*queues: str, jobs: tuple[str, ...] = ()) -> WorkerRecord:
    return WorkerRecord(
        id=f"host:{len(jobs)}", host="host", pid=1, queues=queues, runner="process", concurrency=2, started_at=1,
        seen_at=NOW, jobs=jobs,
    )  # fmt: skip


def envelope(**options: object):
    job = Job(handler="greet", payload={}, queue="mail", **options)  # type: ignore[arg-type]
    return Wire(Ring([new_key()]), 10_000, None).envelope(job, b"{}", "job", EARLIER, 1, None)


def facts(state: str = "ready", fields: dict | None = None, **more: object) -> ExplainFacts:
    usual = ExplainFacts(job=record(state, **(fields or {})), now=NOW, workers=(worker("mail"),), ahead=0, max_read=100)
    return structs.replace(usual, **more)


ABLE = structs.replace(worker("mail"), handlers=("greet",), kids=("new",))
UNABLE = structs.replace(worker("mail"), handlers=("other",))
READY = {"state": "ready"}
DELAYED = {"state": "delayed", "fields": {"due_at": LATER}}
PUT_OFF = {"state": "delayed", "fields": {"due_at": LATER, "fence": 3}}
RETRIED = {"state": "delayed", "fields": {"due_at": LATER, "fence": 1, "attempts": 1}}
PARKED = {"state": "parked", "fields": {"fence": 1, "waits_for": "lock:report"}}
LEASED = {"state": "leased", "fields": {"lease_until": LATER}}
EXPIRED = datetime.fromtimestamp(EARLIER / 1e6, UTC)
SOON = datetime.fromtimestamp(NOW / 1e6 + 1, UTC)


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (READY, ["turn"]),
        (READY | {"ahead": 7}, ["turn"]),
        (READY | {"workers": ()}, ["no_worker", "turn"]),
        (READY | {"workers": (worker("other"),)}, ["no_worker", "turn"]),
        (READY | {"workers": None}, ["turn"]),
        (READY | {"paused": Paused(EARLIER)}, ["paused", "turn"]),
        (READY | {"paused": Paused(EARLIER), "workers": ()}, ["paused", "no_worker", "turn"]),
        (READY | {"workers": (ABLE, UNABLE)}, ["turn"]),
        (READY | {"workers": (UNABLE, worker("mail"))}, ["turn"]),
        (READY | {"workers": (UNABLE, worker("other"))}, ["not_deployed", "turn"]),
        (PUT_OFF | {"workers": (UNABLE,)}, ["not_deployed", "delayed"]),
        (READY | {"workers": (ABLE,), "fields": {"body": b'{"v":1,"kid":"old"'}}, ["key_not_deployed", "turn"]),
        (READY | {"workers": (ABLE,), "fields": {"body": b'{"v":1,"kid":"new"'}}, ["turn"]),
        (READY | {"workers": (worker("mail"),), "draining": {"host:0": Paused(EARLIER)}}, ["draining", "turn"]),
        (READY | {"workers": (worker("mail"), ABLE), "draining": {"host:0": Paused(EARLIER)}}, ["draining", "turn"]),
        (READY | {"workers": (worker("mail"), worker("mail", jobs=("a",))), "draining": {"host:0": Paused(EARLIER)}},
         ["turn"]),
        (DELAYED | {"workers": (worker("mail"),), "draining": {"host:0": Paused(EARLIER)}}, ["delayed", "draining"]),
        (READY | {"obstacle": WAITS}, ["unknown_handler", "turn"]),
        (READY | {"obstacle": DIES}, ["forbidden", "turn"]),
        (READY | {"guards": (LOCK,)}, ["locked", "turn"]),
        (READY | {"guards": (FREE,)}, ["turn"]),
        (READY | {"guards": (RATE,)}, ["rate_limited", "turn"]),
        (READY | {"envelope": envelope(expires_at=EXPIRED)}, ["expires", "turn"]),
        (READY | {"fields": {"crashes": 4}, "envelope": envelope()}, ["crash_loop", "turn"]),
        (READY | {"fields": {"crashes": 4}, "envelope": envelope(max_crashes=4)}, ["turn"]),
        (DELAYED, ["delayed"]),
        (DELAYED | {"paused": Paused(EARLIER)}, ["delayed", "paused"]),
        (DELAYED | {"obstacle": WAITS}, ["delayed", "unknown_handler"]),
        (DELAYED | {"envelope": envelope(expires_at=SOON)}, ["delayed", "expires"]),
        (PUT_OFF | {"obstacle": WAITS}, ["unknown_handler", "delayed"]),
        (RETRIED | {"obstacle": WAITS}, ["delayed", "unknown_handler"]),
        ({"state": "delayed", "fields": {"due_at": EARLIER}}, ["turn"]),
        (PARKED | {"guards": (LOCK,)}, ["locked"]),
        (PARKED | {"guards": (RATE, LOCK), "paused": Paused(EARLIER)}, ["locked", "rate_limited", "paused"]),
        (PARKED | {"guards": (FREE,)}, ["waking"]),
        (PARKED | {"workers": ()}, ["waking", "no_worker"]),
        ({"state": "parked", "fields": {"fence": 3, "waits_for": "suspect:mail"}}, ["suspect"]),
        ({"state": "parked", "fields": {"fence": 3, "waits_for": "suspect:mail"}, "workers": ()},
         ["suspect", "no_worker"]),
        (LEASED | {"workers": (worker("mail", jobs=("job",)),)}, ["running"]),
        (LEASED, ["running"]),
        (LEASED | {"workers": (worker("other"),)}, ["running", "holder_unknown"]),
        (LEASED | {"fields": {"lease_until": NOW + 4_000_000}}, ["running", "holder_unknown"]),
        (LEASED | {"fields": {"lease_until": NOW + 4_000_000}, "workers": (worker("mail", jobs=("job",)),)},
         ["running"]),
        ({"state": "leased", "fields": {"lease_until": LATER, "cancel_asked": True}, "workers": None},
         ["running", "asked_to_stop"]),
        ({"state": "leased", "fields": {"lease_until": EARLIER}}, ["lease_expired"]),
        ({"state": "done", "fields": {"finished_at": NOW}, "workers": ()}, ["done"]),
        ({"state": "cancelled", "fields": {"finished_at": NOW, "reason": "cancelled on request"}}, ["cancelled"]),
        ({"state": "dead", "fields": {"finished_at": NOW, "reason": "timeout"}}, ["dead"]),
    ],
)  # fmt: skip
def test_the_answer_comes_first_and_then_what_else_holds(given, codes):
    assert [reason.code for reason in explain(facts(**given)).reasons] == codes


@pytest.mark.parametrize(
    ("guarded", "code", "text"),
    [
        (LOCK, "locked", "the single-instance lock 'report' is held by job other on worker host:1"),
        (CLAIM, "claimed", "the idempotency key 'order-7' is held by job other on worker host:1"),
        (PROBED, "circuit_open", "the circuit breaker 'stripe' is probed by job other on worker host:1"),
    ],
)
def test_who_holds_a_guard_is_told_with_its_worker_and_since_when(guarded, code, text):
    answer = explain(facts(guards=(guarded,), workers=(worker("mail", jobs=("other",)),))).answer
    assert (answer.code, answer.text) == (code, text)
    assert (answer.job, answer.worker, answer.since) == ("other", "host:1", EARLIER)


def test_of_many_holders_the_one_that_holds_for_the_longest_is_told_if_it_lives():
    holds = (Hold("new", 1, LATER, NOW), HELD, Hold("gone", 1, EARLIER, 1))
    guarded = Guarded(ConcurrencyLimit(states.concurrency_key("greet", None), 2), Slots(2, holds))
    answer = explain(facts(guards=(guarded,))).answer
    text = "a slot of handler 'greet' is not free: all 2 are held, the oldest by job other"
    assert (answer.text, answer.job, answer.since) == (text, "other", EARLIER)


@pytest.mark.parametrize(
    ("guarded", "code", "until"), [(RATE, "rate_limited", NOW + 500_000), (OPEN, "circuit_open", LATER)]
)
def test_until_when_a_rate_or_a_breaker_refuses_is_told(guarded, code, until):
    answer = explain(facts(guards=(guarded,))).answer
    assert (answer.code, answer.until) == (code, until)


def test_a_job_whose_key_is_done_is_told_which_job_has_done_it():
    answer = explain(facts(guards=(DONE,))).answer
    assert (answer.code, answer.job) == ("done_before", "first")


def test_a_delayed_job_is_told_until_when():
    assert explain(facts(**DELAYED)).answer.until == LATER


def test_a_paused_queue_is_told_with_its_reason():
    answer = explain(facts(paused=Paused(EARLIER, "deploy"))).answer
    assert (answer.text, answer.since) == ("queue 'mail' is paused: deploy", EARLIER)


def test_the_turn_of_a_job_is_told_by_what_runs_before_it():
    listening = "; listening workers: 1, with 0 jobs in 2 slots"
    assert explain(facts(ahead=0)).answer.text == f"it is the next job of its queue{listening}"
    assert explain(facts(ahead=7)).answer.text == f"7 jobs of its queue run before it{listening}"
    assert explain(facts(ahead=100)).answer.text == f"it waits for its turn: 100 or more jobs run before it{listening}"


def test_every_attempt_is_told_the_one_that_ended_the_job_last():
    failed, ended = Run("greet", NOW, 0.5), Run("greet", LATER, 0.1)
    failure = Failure("ValueError", "no luck", NOW, 1, run=failed)
    job = {"finished_at": NOW, "failures": (failure,), "run": ended, "attempts": 1}
    attempts = explain(facts("done", job)).attempts
    assert [(each.number, each.failure, each.run) for each in attempts] == [(1, failure, failed), (2, None, ended)]
    retried = explain(facts("delayed", {"due_at": LATER, "failures": (failure,), "attempts": 1})).attempts
    assert [(each.number, each.failure) for each in retried] == [(1, failure)]
    dead = explain(facts("dead", {**job, "run": None})).attempts
    assert [(each.number, each.failure) for each in dead] == [(1, failure)]


def test_every_reason_of_a_death_is_put_into_words():
    assert DEAD_REASONS.keys() == REASONS
    answer = explain(facts("dead", {"finished_at": NOW, "reason": "of my own"})).answer
    assert answer.text == "it is dead: for the reason 'of my own'"


def test_a_tick_that_waits_for_others_is_told_for_which():
    tick = TickRecord(id="job", schedule="report", tick=1, due=1, state="waiting", why="waits for 'load'", noted_at=NOW)
    answer = explain_tick(tick).answer
    assert (answer.code, answer.since) == ("dependency", NOW)
    assert "schedule 'report' waits for 'load'" in answer.text
    skipped = explain_tick(structs.replace(tick, state="skipped", why="depends on 'load', which failed")).answer
    assert (skipped.code, "skipped: depends on 'load', which failed" in skipped.text) == ("tick_skipped", True)


@pytest.mark.parametrize(
    "key",
    [
        states.claim_key("x"), states.lock_key("x"),
        states.concurrency_key("x", None), states.concurrency_key("h", "x"),
        states.rate_key("x", None), states.rate_key("h", "x"), states.queue_rate_key("x"), states.breaker_key("x"),
    ],
)  # fmt: skip
def test_every_kind_of_guard_is_put_into_words(key):
    what, frees = text_of(key)
    assert what.endswith(" 'x'")
    assert frees.startswith("app.")
